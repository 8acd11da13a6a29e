"""Text of a CUDA file: byte spans, a lossless parse, edit lists and diffs."""

from tilepipe.source.edits import Edit, apply_edits, edited
from tilepipe.source.parse import Tree, mask, parse, parse_tree, span
from tilepipe.source.text import SourceFile, Span

__all__ = [
    "Edit",
    "SourceFile",
    "Span",
    "Tree",
    "apply_edits",
    "edited",
    "mask",
    "parse",
    "parse_tree",
    "span",
]
