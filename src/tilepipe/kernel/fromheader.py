"""Functions of included headers that fill a tile: a copy stands in the file while the loop is looked at.

    #include "loads.cuh"                #include "loads.cuh"

                                  →     template <int N> __device__ void fill_copy(float* s, const float* a) { … }

    … fill<128>(s, a + k);              … fill_copy<128>(s, a + k);

The loader has the text of such a function in place of its call, so the text must mean in the file what it means in the
header. In what is emitted the copies are gone (`without_copies`).
"""

from __future__ import annotations

import re

from tree_sitter import Node

from tilepipe.kernel.binding import names_within, uses
from tilepipe.kernel.file import CudaFile, HeaderCopy
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import include_guard
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import Function, callee
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Edit, Span, Tree
from tilepipe.source.parse import span

_AROUND = ("translation_unit", "namespace_definition", "declaration_list")


def from_header(file: CudaFile, tile: TileLoop, parts: Split) -> CudaFile | None:
    """The file with a copy of the first function of a header that fills a tile; None where there is none whose text
    means the same in the file."""
    for store in tile.stores:
        if store.buffer not in tile.staged or store.kind == "compute" or store.store is None:
            continue
        at = store.store.span
        call = file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        function = file.functions.get(callee(call)) if call is not None else None
        if (
            call is None
            or call.type != "call_expression"
            or function is None
            or store.item not in parts.loader
        ):
            continue
        taken = copied(file, call, function)
        if taken is not None:
            return taken
    return None


def copied(file: CudaFile, call: Node, function: Function) -> CudaFile | None:
    """The file with a copy of a header's function, called in place of it; None where it would mean something else."""
    tree = next((t for t in file.header_trees if _root(function.node) == t.root), None)
    outer = function.node
    if outer.parent is not None and outer.parent.type == "template_declaration":
        outer = outer.parent
    named, called = _name(function.node, "declarator"), _name(call, "function")
    place = _place(file.tree.root, call)
    if tree is None or function.overloads or named is None or called is None or place is None:
        return None
    there = next((file.functions.get(c.name) for c in file.copies if c.of == function.name), None)
    if there is not None and there.node.start_byte < call.start_byte:
        return file.edited([Edit(span(called), there.name)])
    if not _plain(tree, outer) or not _means_the_same(file, tree, outer, function):
        return None
    name = f"{function.name}_copy"
    if any(re.search(rf"\b{name}\b", t.source.text) for t in (file.tree, *file.header_trees)):
        return None
    head, tail = (f"namespace {'::'.join(function.scope)} {{\n", "\n}") if function.scope else ("", "")
    data = tree.source.data
    parts = (data[outer.start_byte : named.start_byte], name.encode(), data[named.end_byte : outer.end_byte])
    text = f"{head}{b''.join(parts).decode()}{tail}\n\n"
    copy = Edit(Span(place, place), text)
    first = tree.source.line_of(outer.start_byte) - head.count("\n")
    return file.edited(
        (copy, Edit(span(called), name)),
        {copy: (tree.source.name, first)},
        (HeaderCopy(name, function.name, text),),
    )


def without_copies(file: CudaFile, text: str) -> str:
    """A text made from the file's: calls of a copy that is as it was call the header's function again."""
    for copy in reversed(file.copies):  # a later one may be called in an earlier one
        if copy.text in text:
            text = re.sub(rf"\b{copy.name}\b", copy.of, text.replace(copy.text, "", 1))
    return text


def _root(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _name(node: Node, field: str) -> Node | None:
    """The identifier of what a definition declares, or a call calls."""
    inner = node.child_by_field_name(field)
    while inner is not None and inner.type != "identifier":
        step = inner.child_by_field_name("name") or inner.child_by_field_name("declarator")
        inner = step or next((c for c in inner.named_children if c.type.endswith("declarator")), None)
    return inner


def _place(root: Node, call: Node) -> int | None:
    """Where the copy goes: before the outermost definition around the call, None where that stands under an #if."""
    top = call
    while top.parent is not None and top.parent != root:
        top = top.parent
    return None if top.type.startswith("preproc_") else top.start_byte


def _plain(tree: Tree, outer: Node) -> bool:
    """Whether a header has the function under no condition, in namespaces alone."""
    guard, node = include_guard(tree.root), outer.parent
    while node is not None:
        if node.type not in _AROUND and node != guard:
            return False
        node = node.parent
    return True


def _means_the_same(file: CudaFile, tree: Tree, outer: Node, function: Function) -> bool:
    """Whether each name of a header's function means the same in the file, at its top level below the includes."""
    known, number, own = meanings(file), file.header_trees.index(tree), names_within(outer, file.macros)
    for word in known.with_macros(word for word, _ in uses(outer)):
        owner = known.owner(word, function.scope)
        if not known.as_in_header(word, number, outer.start_byte, owner is not None or word in own):
            return False
        if owner is not None and not known.only_one(word, owner):
            return False
    return True
