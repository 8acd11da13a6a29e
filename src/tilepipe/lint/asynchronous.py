"""The interfaces of asynchronous copies, each turned into the same few events."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.lint.events import NotUnderstoodError
from tilepipe.lint.expressions import Expressions
from tilepipe.lint.nodes import text_of
from tilepipe.lint.values import ANY, NO_TAGS, Num, Object, Pointer, const

_ALL = 0
PRIMITIVES = "__pipeline"
PTX = "ptx"
PIPELINE = "cuda::pipeline"
BARRIER = "cuda::barrier"
GROUPS = "cooperative groups"
_COPY = re.compile(
    r"(?P<guard>@!?\S+\s+)?cp\.async\.(?P<modifier>ca|cg)\.shared(?:::cta)?\.global(?P<more>[.\w:]*)\s*"
    r"\[\s*(?P<to>[^\]]+)\]\s*,\s*\[\s*(?P<from>[^\]]+)\]\s*,\s*(?P<size>[%\w]+)\s*(?:,\s*(?P<valid>[%\w]+))?"
)
_WAIT = re.compile(r"cp\.async\.wait_group\s+(%?\w+)")
_BARRIER = re.compile(r"\b(?:bar|barrier)(?:\.cta)?\.sync\b")
_FOREIGN = re.compile(
    r"mbarrier|cp\.async\.bulk|cp\.async\.mbarrier|bar\.arrive|barrier\.cta\.arrive|wgmma|tcgen05"
)
_LOAD = re.compile(r"(?:ldmatrix[.\w:]*|ld\.shared[.\w:]*)\s[^\[]*\[\s*(?P<at>[^\]]+)\]")
_STORE = re.compile(r"(?:stmatrix[.\w:]*|st\.shared[.\w:]*)\s*\[\s*(?P<at>[^\]]+)\]")
_OPERAND = re.compile(r"%(\d+)")


class Asynchronous(Expressions):
    """Recognises copies, commits, waits and barriers."""

    @abstractmethod
    def opaque(self, values: list[Any]) -> None:
        """Note that arrays were handed to code that cannot be followed."""

    def copy(self, to: Any, source: Any, size: Any, node: Node, api: str, **more: Any) -> None:
        """An asynchronous copy to `to`. Raises NotUnderstoodError where its target is not a known array."""
        if not isinstance(to, Pointer) or to.array.space != "shared":
            raise NotUnderstoodError("an asynchronous copy goes to an address that cannot be followed")
        count = size.known if isinstance(size, Num) else None
        tags = source.offset.tags if isinstance(source, Pointer) else NO_TAGS
        self.access(
            "copy",
            to,
            count or to.elem,
            node,
            api=api,
            bytes=count or 0,
            source=source if isinstance(source, Pointer) else None,
            source_tags=tags,
            **more,
        )

    # -- calls ---------------------------------------------------------------------------------------------

    def asynchronous_call(self, name: str, arguments: list[Node], template: list[Node], node: Node) -> bool:
        """Walk a call of one of the interfaces; False where it is none."""
        if name == "__pipeline_memcpy_async":
            values = [self.value(a) for a in arguments]
            sized = len(values) > 3
            index = self._spelled(arguments[1]) if len(arguments) > 1 else ""
            self.copy(values[0], values[1], values[2], node, PRIMITIVES, sized=sized, index=index)
        elif name == "__pipeline_commit":
            self.emit("commit", self.site(node, PRIMITIVES))
        elif name == "__pipeline_wait_prior":
            self.emit("wait", self.site(node, PRIMITIVES), count=self._count(arguments))
        elif name == "pipeline_consumer_wait_prior":
            self.emit("wait", self.site(node, PIPELINE), count=self._count(template))
        elif name == "memcpy_async":
            self._memcpy(arguments, node)
        elif name in ("wait", "wait_prior") and self._is_group(arguments):
            count = self._count(template) if name == "wait_prior" else _ALL
            self.emit("wait", self.site(node, GROUPS), count=count)
            self.emit("barrier", self.site(node, GROUPS))
        elif name == "sync" and self._is_group(arguments):
            self._group_barrier(self.value(arguments[0]), node)
        else:
            return False
        return True

    def _spelled(self, node: Node) -> str:
        """The text of a source address; that of its declaration where it is a variable."""
        cell = self.lookup(text_of(node)) if node.type == "identifier" else None
        return cell.origin if cell is not None and cell.origin else text_of(node)

    def _count(self, nodes: list[Node]) -> int:
        count = self.value(nodes[0]) if nodes else ANY
        if not isinstance(count, Num) or count.known is None:
            raise NotUnderstoodError("the number of a wait is not known")
        return max(count.known, 0)

    def _is_group(self, arguments: list[Node]) -> bool:
        value = self.value(arguments[0]) if arguments else None
        return isinstance(value, Object) and value.kind == "group"

    def _group_barrier(self, group: Any, node: Node) -> None:
        if isinstance(group, Object) and group.scope == "block":
            self.emit("barrier", self.site(node, GROUPS))
        else:
            self.trace.warp_synchronous = True

    def _memcpy(self, arguments: list[Node], node: Node) -> None:
        values = [self.value(a) for a in arguments]
        last = values[-1] if values else None
        if isinstance(last, Object) and last.kind == "pipeline":
            values, arguments = values[:-1], arguments[:-1]
            grouped = isinstance(values[0], Object)
            values, arguments = (values[1:], arguments[1:]) if grouped else (values, arguments)
            if len(values) != 3:
                raise NotUnderstoodError("a memcpy_async of an unusual form")
            self.copy(
                values[0],
                values[1],
                const(0) if grouped else values[2],
                node,
                PIPELINE,
                index=self._spelled(arguments[1]),
            )
        elif isinstance(last, Object) and last.kind == "barrier" and len(values) == 4:
            self.copy(values[0], values[1], values[2], node, BARRIER, index=self._spelled(arguments[1]))
            self.emit("commit", self.site(node, BARRIER))
        elif values and isinstance(values[0], Object) and values[0].kind == "group" and len(values) == 4:
            self.copy(values[1], values[2], const(0), node, GROUPS, index=self._spelled(arguments[2]))
            self.emit("commit", self.site(node, GROUPS))
        else:
            raise NotUnderstoodError("a memcpy_async that completes on a barrier")

    def method(self, owner: Object, name: str, node: Node) -> Any:
        """A method of a pipeline or thread group."""
        if owner.kind == "group":
            if name in ("sync", "barrier_wait"):
                self._group_barrier(owner, node)
            if name == "thread_rank":
                return self._rank(owner)
            return ANY
        if owner.kind == "barrier" and name == "arrive_and_wait":
            # Every thread's copies have arrived with it: a wait for all, and a barrier.
            self.emit("wait", self.site(node, BARRIER), count=_ALL)
            self.emit("barrier", self.site(node, BARRIER))
            return ANY
        if owner.kind == "barrier" or (owner.scope != "thread" and name != "quit"):
            raise NotUnderstoodError("synchronisation through a shared barrier object")
        if name == "producer_commit":
            self.emit("commit", self.site(node, PIPELINE))
        elif name == "consumer_wait":
            self.emit("wait", self.site(node, PIPELINE), count=-1)  # the oldest group not waited for yet
        return ANY

    def _rank(self, group: Object) -> Num:
        most = (self.launch.threads or 1024) if group.scope == "block" else 32
        return Num(0, most - 1, frozenset({"thread"}), f"thread_rank.{group.scope}")

    # -- inline PTX ----------------------------------------------------------------------------------------

    def assembly(self, node: Node) -> None:
        code = _joined(node.child_by_field_name("assembly_code"))
        if _FOREIGN.search(code):
            raise NotUnderstoodError("inline PTX that synchronises through mbarriers or named barriers")
        outputs = _operands(node, "output_operands")
        inputs = _operands(node, "input_operands")
        values: list[Any] = []
        for operand in outputs:
            at = self.lvalue(operand)
            values.append(at.value if hasattr(at, "value") else ANY)
            self.store(at, ANY, operand, None, "=")
        values += [self.value(operand) for operand in inputs]
        nodes = [*outputs, *inputs]
        for instruction in re.split(r"[;\n]", code):
            self._instruction(instruction.strip(" {}\t"), values, nodes, node)

    def _instruction(self, text: str, values: list[Any], nodes: list[Node], node: Node) -> None:
        copy = _COPY.search(text)
        if copy is not None:
            index = _OPERAND.search(copy["from"])
            spelled = self._spelled(nodes[int(index[1])]) if index and int(index[1]) < len(nodes) else ""
            size = self._operand(copy["size"], values)
            sized = copy["valid"] is not None
            more = {"sized": sized or bool(copy["guard"]), "modifier": copy["modifier"], "index": spelled}
            self.copy(
                self._operand(copy["to"], values),
                self._operand(copy["from"], values),
                size,
                node,
                PTX,
                **more,
            )
        elif "cp.async.commit_group" in text:
            self.emit("commit", self.site(node, PTX))
        elif "cp.async.wait_all" in text:
            self.emit("commit", self.site(node, PTX))
            self.emit("wait", self.site(node, PTX), count=_ALL)
        elif wait := _WAIT.search(text):
            count = self._operand(wait[1], values)
            if not isinstance(count, Num) or count.known is None:
                raise NotUnderstoodError("the number of a wait is not known")
            self.emit("wait", self.site(node, PTX), count=count.known)
        elif _BARRIER.search(text):
            self.emit("barrier", self.site(node, PTX))
        elif found := _LOAD.search(text) or _STORE.search(text):
            pointer = self._operand(found["at"], values)
            if isinstance(pointer, Pointer):
                self.access("read" if _LOAD.search(text) else "store", pointer, 16, node)

    def _operand(self, text: str, values: list[Any]) -> Any:
        """The value behind `%2`, `%2 + 16` or `16`."""
        text = text.strip()
        found = _OPERAND.match(text)
        if found is None:
            return const(int(text, 0)) if re.fullmatch(r"\d+|0x[\da-f]+", text) else ANY
        value = values[int(found[1])] if int(found[1]) < len(values) else ANY
        extra = re.search(r"\+\s*(\d+)", text)
        if extra and isinstance(value, Pointer):
            value = self._moved(replace(value, elem=1, dims=()), const(int(extra[1])))
        return value


def _operands(node: Node, field: str) -> list[Node]:
    listed = node.child_by_field_name(field)
    found = [o.child_by_field_name("value") for o in listed.named_children] if listed is not None else []
    return [o for o in found if o is not None]


def _joined(node: Node | None) -> str:
    """The text of adjacent string literals, without their quotes; a line end for each escaped one."""
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', text_of(node))
    return "".join(pieces).replace("\\n", "\n").replace("\\t", " ").replace("\\", "")
