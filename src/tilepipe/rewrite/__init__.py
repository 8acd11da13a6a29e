"""One candidate of a plan applied to a kernel: edits that make the new source text."""

from tilepipe.rewrite.emit import rewrite
from tilepipe.rewrite.types import Rewrite

__all__ = ["Rewrite", "rewrite"]
