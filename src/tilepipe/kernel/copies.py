"""Copies of the load phase: which shared stores move a global element unchanged, and how to issue them.

A store is a copy when its value is one global element of the store's own type, perhaps under a guard that
puts zero otherwise: `S = G`, `S = c ? G : 0`, `if (c) S = G; else S = 0;`, or the same through a variable
that holds the element in between. What is computed, converted or patched is staged through registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.kernel.between import changed_between, dominates, guarding, means_the_same
from tilepipe.kernel.decisions import Decision, zero_otherwise
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import enclosed
from tilepipe.kernel.names import arguments_of
from tilepipe.kernel.owned import may_be_owned
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse, TileLoop
from tilepipe.kernel.zeros import Zero, Zeros, bare
from tilepipe.source import Span
from tilepipe.source.parse import span


@dataclass(frozen=True, eq=False)
class Copy:
    """A shared store that is a plain copy.

    `target` and `source` are lvalue texts; `guard` the condition under which the element is in range, None for
    always; `fill` what is stored otherwise, None for zero. `uses` are the names that the texts need. `root` is the
    array that the source lies in. `replaces` is the statement whose place the copy takes (the store, or the `if`
    around it). `zeros` are the expressions that were taken for zero, `beyond` the one of them that could be `fill`.
    `held` is the variable that holds the element in between, with what it is loaded from.
    """

    use: StoreUse
    target: str
    source: str
    guard: str | None
    uses: frozenset[Symbol]
    root: Symbol | None
    replaces: Statement
    source_at: Item  # where `source` is evaluated in the author's text
    fill: str | None = None
    zeros: tuple[Zero, ...] = ()
    beyond: str | None = None
    held: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class NotACopy:
    """A store whose value is not a global element as it stands, and why."""

    use: StoreUse
    reason: str


class Copies:
    """Classifies the staged stores of one tile loop."""

    def __init__(self, file: CudaFile, tile: TileLoop, split: Split) -> None:
        self.file = file
        self.tile = tile
        self.split = split
        self.zeros = Zeros(file, tile)
        self._stores = [s for s in tile.stores if s.buffer in tile.staged and s.kind != "compute"]

    def classify(self) -> tuple[Copy | NotACopy, ...]:
        """One answer per staged store that carries a load; constant stores follow their partner."""
        return tuple(self._one(s) for s in self._stores if s.kind == "load" and not self._is_fill(s))

    def _is_fill(self, use: StoreUse) -> bool:
        """A store of zero: it follows the copy whose gap it fills."""
        return use.store is not None and self.zeros.is_zero(self.node(use.store.right))

    def text(self, at: Span) -> str:
        return self.file.source.slice(at)

    def node(self, at: Span) -> Node:
        found = self.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if found is None:
            raise ValueError("a span outside of the tree")
        return found

    # -- one store -------------------------------------------------------------------------------------------

    def _one(self, use: StoreUse) -> Copy | NotACopy:
        store = use.store
        if store is None or store.in_macro:
            return NotACopy(use, "the store is made by a macro")
        if store.op != "=":
            return NotACopy(use, "the store accumulates")
        if use.item.statement.kind != "leaf" or self.text(store.span) + ";" != self.text(
            use.item.statement.span
        ):
            return NotACopy(use, "the store is part of a larger statement")
        found = self._moved(use, bare(self.node(store.right)))
        if isinstance(found, Copy):
            uses = found.uses | found.source_at.own.uses
            if may_be_owned(self.file, self.tile.path[0], found.source_at.statement, uses):
                return NotACopy(use, "what is loaded may lie in memory of the thread's own")
        if isinstance(found, Copy) and found.guard is not None:
            # The address is formed whatever the guard says, and the guard is asked once.
            items = (found.use.item, found.source_at)
            if any(self._side_effects(i) or i.own.shared_reads() for i in items):
                return NotACopy(use, "the guarded load changes a variable or reads shared memory on its way")
        return found

    def _moved(self, use: StoreUse, right: Node) -> Copy | NotACopy:
        if self._is_load(right, use.item):
            return self._direct(use, right)
        if right.type == "conditional_expression":
            return self._select(use, right)
        return self._through(use, right)

    def _side_effects(self, item: Item) -> frozenset[Symbol]:
        """Variables that a statement changes apart from the one that it is there to set."""
        return frozenset(s for s in item.changed if self._assigned(item, s) is None)

    def _is_load(self, node: Node, item: Item) -> bool:
        at = span(node)
        return any(load.lvalue and load.span == at for load in item.own.loads)

    def _direct(self, use: StoreUse, right: Node) -> Copy:
        store = use.store
        assert store is not None
        source = self._source_text(right)
        root = self._root(use.item, span(right))
        merged = self._zero_partner(use)
        if merged is not None:
            decision, guard = merged
            uses = use.item.own.uses | decision.uses
            zeros = tuple(self._stored(s.right, self.text(s.left)) for s in decision.zeros)
            return Copy(
                use, self.text(store.left), source, guard, uses, root, decision.branch, use.item, zeros=zeros
            )
        return Copy(
            use, self.text(store.left), source, None, use.item.own.uses, root, use.item.statement, use.item
        )

    def _stored(self, at: Span, target: str) -> Zero:
        """What is known to be made of zeros, as stored to an lvalue."""
        zero = self.zeros.zero(self.node(at))
        assert zero is not None
        return replace(zero, target=target)

    def _zero_partner(self, use: StoreUse) -> tuple[Decision, str] | None:
        """The branches around the store when they put zero into the same element otherwise, and their guard."""
        decision = zero_otherwise(use.item, self.text, lambda at: self.zeros.is_zero(self.node(at)))
        if decision is None or (use.item.own.loads and use.item.own.loads[0].nested):
            return None
        parts = [(_unparenthesised(self.text(at)), fails) for at, fails in decision.way.conditions]
        if len(parts) == 1:
            ((condition, fails),) = parts
            return decision, f"!({condition})" if fails else condition
        return decision, " && ".join(f"!({c})" if fails else f"({c})" for c, fails in parts)

    def _select(self, use: StoreUse, right: Node) -> Copy | NotACopy:
        store = use.store
        assert store is not None
        parts = [right.child_by_field_name(n) for n in ("condition", "consequence", "alternative")]
        condition, then, other = (p for p in parts)
        if condition is None or then is None or other is None:
            return NotACopy(use, "the guard is not understood")
        guard = _unparenthesised(self.text(span(condition)))
        if self.zeros.is_zero(then):
            then, other, guard = other, then, f"!({guard})"
        load = bare(then)
        if not self._reads_one(use.item, load):
            return NotACopy(use, "the guarded value is computed, not copied")
        beyond, target = self.text(span(other)), self.text(store.left)
        zeros = (self._stored(span(other), target),) if self.zeros.is_zero(other) else ()
        if not zeros and use.item.own.shared_reads():
            return NotACopy(use, "the value outside of the guard reads shared memory")
        root = self._root(use.item, span(right))
        return Copy(
            use, target, self._source_text(load), guard, use.item.own.uses, root,
            use.item.statement, use.item, None if zeros else beyond, zeros, beyond,
        )  # fmt: skip

    def _reads_one(self, item: Item, node: Node) -> bool:
        """Whether the node is one global element whose address reads no memory."""
        lvalue = node.type == "subscript_expression" or (
            node.type == "pointer_expression" and self.text(span(node)).startswith("*")
        )
        if node.type == "call_expression":
            name = node.child_by_field_name("function")
            text = self.text(span(name)) if name is not None else ""
            lvalue = text in self.file.macros or text == "__ldg"
        return lvalue and all(not load.nested for load in item.own.loads)

    # -- through a variable ----------------------------------------------------------------------------------

    def _through(self, use: StoreUse, right: Node) -> Copy | NotACopy:
        member = ""
        value = right
        if right.type == "field_expression":
            argument = right.child_by_field_name("argument")
            if argument is not None and argument.type == "identifier":
                value = argument
                member = self.text(Span(argument.end_byte, right.end_byte))
        base = value.child_by_field_name("argument") if value.type == "subscript_expression" else value
        if base is None or base.type != "identifier":
            return NotACopy(use, "the value is computed between load and store")
        name = self.text(span(base))
        variable = next((s for s in use.item.own.uses if s.name == name and s.kind == "local"), None)
        if variable is None:
            return NotACopy(use, "the value is computed between load and store")
        definitions = [d for d in self.tile.flow.definers[variable] if d in self.split.loader]
        if value.type == "subscript_expression":
            return self._through_array(use, value, variable, definitions)
        return self._through_scalar(use, variable, definitions, member)

    def _through_scalar(
        self, use: StoreUse, variable: Symbol, definitions: list[Item], member: str
    ) -> Copy | NotACopy:
        store = use.store
        assert store is not None
        found = [(d, self._assigned(d, variable)) for d in definitions]
        loads = [(d, v) for d, v in found if v is not None and self._is_load(bare(v), d)]
        zeros = [(d, v) for d, v in found if v is not None and self.zeros.is_zero(v)]
        if len(loads) != 1 or len(loads) + len(zeros) != len(definitions) or len(zeros) > 1:
            return NotACopy(use, f"`{variable.name}` is not simply loaded before it is stored")
        at, value = loads[0]
        if self._side_effects(at):
            return NotACopy(use, f"the load of `{variable.name}` changes a variable on its way")
        guard, branch = None, None
        target = self.text(store.left)
        held: tuple[Zero, ...] = ()
        uses = use.item.own.uses - {variable} | at.own.uses
        if zeros:
            branch = guarding(self.tile.flow, at, zeros[0][0], use.item)
            if branch is None or at.own.loads[0].nested:
                return NotACopy(use, f"the guard around the load of `{variable.name}` is not understood")
            guard = _unparenthesised(self.text(branch.condition)) if branch.condition is not None else ""
            uses |= branch.own.uses
            held = (self._held(variable.name, zeros[0][1], target),)
        elif not dominates(at, use.item):
            return NotACopy(use, f"`{variable.name}` is loaded under a condition only")
        since = self.tile.flow.of[id(branch)] if branch is not None else at
        if changed_between(self.split.loader, since, use.item, uses):
            return NotACopy(use, f"what the load of `{variable.name}` needs changes before the store")
        # Names within helpers that the texts call are theirs alone.
        own = [s for s in uses if len(s.key[1]) <= len(use.item.statement.context)]
        if not all(means_the_same(self.tile.flow, s, use.item) for s in own):
            return NotACopy(use, f"names in the load of `{variable.name}` mean something else at the store")
        loaded = self._source_text(bare(value))
        source = f"({loaded}){member}" if member else loaded
        root = self._root(at, span(value))
        between = (variable.name, loaded)
        return Copy(use, target, source, guard, uses, root, use.item.statement, at, zeros=held, held=between)

    def _held(self, name: str, value: Node, target: str) -> Zero:
        """The zero in a variable that is loaded otherwise, as stored to an lvalue."""
        return replace(self.zeros.held(name, value, self._stored(span(value), target)), target=target)

    def _through_array(
        self, use: StoreUse, value: Node, variable: Symbol, definitions: list[Item]
    ) -> Copy | NotACopy:
        """`ra[s] = G` in one loop and `S = ra[s]` in a second with the same header."""
        reason = NotACopy(use, f"`{variable.name}` is not simply loaded before it is stored")
        store = use.store
        assert store is not None
        if len(definitions) != 1 or definitions[0].statement.kind != "leaf":
            return reason
        at = definitions[0]
        if self._side_effects(at) - {variable}:
            return NotACopy(use, f"the load of `{variable.name}` changes a variable on its way")
        assignment = bare(self.node(at.statement.span))
        if assignment.type == "expression_statement":
            assignment = assignment.named_children[0]
        left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
        if left is None or right is None or self.text(span(left)) != self.text(span(value)):
            return reason
        if not self._is_load(bare(right), at):
            return reason
        loops = [[p for p in i.parents if p.is_loop] for i in (at, use.item)]
        if [self._header(p) for p in loops[0]] != [self._header(p) for p in loops[1]]:
            return reason
        if not loops[0] or not self._same_locals(at, use.item):
            return reason
        outer = frozenset(s for s in at.own.uses if not self._local_to(s, loops[0][0]))
        if changed_between(self.split.loader, at, use.item, outer):
            return NotACopy(use, f"what the load of `{variable.name}` needs changes before the store")
        # Names of the first loop are those of the second: same header, same declarations.
        twin = {s.name: s for s in self._locals(loops[1][0])}
        uses = frozenset(twin.get(s.name, s) if self._local_to(s, loops[0][0]) else s for s in at.own.uses)
        uses |= use.item.own.uses - {variable}
        root = self._root(at, span(right))
        source = self._source_text(bare(right))
        between = (self.text(span(value)), source)
        return Copy(
            use, self.text(store.left), source, None, uses, root, use.item.statement, use.item, held=between
        )

    def _header(self, loop: Statement) -> str:
        body = loop.children[0].span.start if loop.children else loop.span.end
        return " ".join(self.text(Span(loop.span.start, body)).split())

    def _locals(self, loop: Statement) -> list[Symbol]:
        return [s for inner in loop.walk() for s in inner.declares]

    def _local_to(self, symbol: Symbol, loop: Statement) -> bool:
        return loop.span.start <= symbol.key[0] < loop.span.end

    def _same_locals(self, at: Item, store: Item) -> bool:
        """Whether each local that the load uses is declared by the same text around the store."""
        loops = [next(p for p in i.parents if p.is_loop) for i in (at, store)]
        texts = [{self.text(s.span) for s in loop.walk() if s.kind == "declaration"} for loop in loops]
        for inner in loops[0].walk():
            if (
                inner.kind == "declaration"
                and inner.declares & at.own.uses
                and self.text(inner.span) not in texts[1]
            ):
                return False
        return True

    def _assigned(self, item: Item, variable: Symbol) -> Node | None:
        """The expression that a plain definition of the variable assigns."""
        node = self.node(item.statement.span)
        if item.statement.kind == "declaration":
            for child in node.named_children:
                if child.type == "init_declarator":
                    value = child.child_by_field_name("value")
                    inner = child.child_by_field_name("declarator")
                    if inner is not None and self.text(span(inner)) == variable.name:
                        return value
            return None
        if node.type == "expression_statement" and node.named_children:
            node = node.named_children[0]
        left = node.child_by_field_name("left")
        operator = node.child_by_field_name("operator")
        if node.type != "assignment_expression" or left is None or left.type != "identifier":
            return None
        if operator is not None and self.text(span(operator)) != "=":
            return None
        return node.child_by_field_name("right")

    # -- text ------------------------------------------------------------------------------------------------

    def _source_text(self, node: Node) -> str:
        """The lvalue text of a load: `__ldg(p)` becomes `*(p)`."""
        if node.type == "call_expression":
            name = node.child_by_field_name("function")
            if name is not None and self.text(span(name)).startswith("__ld"):
                arguments = arguments_of(node)
                if arguments:
                    text = self.text(span(arguments[0]))
                    return text[1:] if text.startswith("&") else f"*({text})"
        return self.text(span(node))

    def _root(self, item: Item, at: Span) -> Symbol | None:
        for load in item.own.loads:
            if (
                load.span.start <= at.start and at.end <= load.span.end
            ) or at.start <= load.span.start < at.end:
                return load.bases[0] if load.bases else None
        return None


def _unparenthesised(text: str) -> str:
    """`(a < b)` without its outer parentheses, where they belong together."""
    text = text.strip()
    while text.startswith("(") and enclosed(text):
        text = text[1:-1].strip()
    return text
