"""Tile loops in called functions: the function's text takes the place of its call before the loop is looked at.

    __device__ float dot(const float* a, float* s, int n)        float dot_result;
    {                                                             {  // dot
        float sum = 0.f;                                              float sum = 0.f;
        for (…) { … __syncthreads(); … }                              for (…) { … __syncthreads(); … }
        return sum;                                        →          dot_result = sum;
    }                                                             }
    … const float x = dot(a, s, n);                               const float x = dot_result;

The kernel owns its loop then, and the function stays as it is for its other callers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import indent

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.arguments import Why, bound
from tilepipe.kernel.binding import uses
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.fromheader import copied
from tilepipe.kernel.layout import indent_of
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import Function, callee
from tilepipe.kernel.statements import Statement
from tilepipe.source import Edit, Span, apply_edits
from tilepipe.source.parse import below, span

_WORD = re.compile(r"[A-Za-z_]\w*")
_KEPT = re.compile(r"\b(static|__shared__)\b(?!\s*_assert)")
_EXTERN = re.compile(r"\bextern\b[^;]*")
_PLAIN = re.compile(
    r"(unsigned |signed )?(bool|char|short|int|long|long long|float|double|half|size_t|unsigned|u?int\d+_t|__half2?"
    r"|half2|__nv_bfloat162?|(u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4])"
)


def inlined(file: CudaFile, analysed: Analysed, loop: Statement | None) -> CudaFile | Refusal | None:
    """The file with the text of the first function whose call has barriers in place of that call; TP001 where it cannot
    stand there, None where no call has any. `loop`: the tile loop as far as one was found; one with a barrier in the
    kernel's own text is that loop."""
    calls = list(_calls(file, analysed.body if loop is None else loop))
    if loop is not None and not all(calls):
        return None
    for call in (one for found in calls for one in found):
        function = file.functions[callee(call)]
        made: CudaFile | Why | None = copied(file, call, function) if function.foreign else None
        if made is None:
            made = _known(function) if function.foreign else _Inlining(file, analysed, call, function).made()
        if isinstance(made, CudaFile):
            return made
        why, remedy = made
        return refusal(
            "TP001",
            f"no tile loop in `{analysed.kernel.name}`: its barriers stand in `{function.name}`, {why}",
            file.source.place(span(call)),
            "its text cannot take the place of the call",
            remedy,
        )
    return None


def _known(function: Function) -> Why:
    """Why a function is known by its effects alone."""
    if function.overloads:
        return "which shares its name with another function", "give it a name of its own"
    return "which stands in a header, where its names may mean something else", "move it into the file"


def _calls(file: CudaFile, within: Statement) -> Iterator[list[Node]]:
    """For each statement with a barrier the calls in the kernel's own text that it may stand in."""
    for statement in within.walk():
        if "barrier" not in statement.own.flags:
            continue
        start = statement.context[0] if statement.context else statement.span.start
        end = start + 1 if statement.context else statement.span.end
        node = file.tree.root.named_descendant_for_byte_range(start, end)
        while statement.context and node is not None and node.type != "call_expression":
            node = node.parent
        yield [
            n
            for n in (below(node) if node is not None else ())
            if n.type == "call_expression" and callee(n) in file.functions
        ]


def _reached(file: CudaFile, node: Node) -> set[str]:
    """The words of a text and of all functions and macros that it may name."""
    words: set[str] = set()
    ahead = [(node.text or b"").decode()]
    while ahead:
        for word in set(_WORD.findall(ahead.pop())) - words:
            words.add(word)
            function, macro = file.functions.get(word), file.macros.get(word)
            named = (function, *function.overloads) if function is not None else ()
            ahead += [(f.body.text or b"").decode() for f in named] + (
                [macro.body] if macro is not None else []
            )
    return words


class _Inlining:
    """One call and the function that it calls."""

    def __init__(self, file: CudaFile, analysed: Analysed, call: Node, function: Function) -> None:
        self.file, self.call, self.function = file, call, function
        self.known = meanings(file)
        self.templated = bool(analysed.kernel.template)
        self.kernel = file.tree.root.named_descendant_for_byte_range(
            analysed.kernel.span.start, analysed.kernel.span.end
        )
        self.body = function.body
        self.name = next((c.of for c in file.copies if c.name == function.name), function.name)
        self.statement = call
        while self.statement.parent is not None and not self.statement.type.endswith(
            ("statement", "declaration")
        ):
            self.statement = self.statement.parent
        self.alone = self.statement.type == "expression_statement" and self.call.parent == self.statement
        around = self.statement.parent
        named = [c for c in around.named_children if c.type != "comment"] if around is not None else []
        top = around is not None and span(around) == analysed.kernel.body
        self.last = top and self.alone and named[-1:] == [self.statement]

    def _text(self, node: Node) -> str:
        return self.file.source.slice(span(node))

    def made(self) -> CudaFile | Why:
        for problem in (self._state(), self._form(), self._names()):
            if problem is not None:
                return problem
        parameters = bound(self.file, self.call, self.function, self.last)
        if isinstance(parameters, tuple):
            return parameters
        result = self._result(parameters.outside)
        if isinstance(result, tuple):
            return result
        return self._edited(parameters.declared, parameters.edits, result)

    # -- what stands against it ------------------------------------------------------------------------------------

    def _form(self) -> Why | None:
        """How the function returns, and what its call is a part of."""
        apart = "give its result a variable of its own"
        if not self.alone and (self._value() is None or self.statement.parent is None):
            return "whose call stands within an expression", apart
        around = self.statement.parent
        if self.statement.type == "declaration" and (around is None or around.type != "compound_statement"):
            return "whose call stands in the head of a statement", apart
        final = self._final()
        early = [r for r in self._returns() if r != final]
        if early and not (self.last and self._type() == "void"):
            line = self.file.source.line_of(early[0].start_byte)
            return f"which returns from its middle (line {line})", "let it return at its end alone"
        if not self.alone and (final is None or final.type != "return_statement"):
            return "which does not return at its end", "let it return at its end"
        return None

    def _final(self) -> Node | None:
        return next((c for c in reversed(self.body.named_children) if c.type != "comment"), None)

    def _returns(self) -> list[Node]:
        """The returns of the function, not those of its lambdas."""
        found, stack = [], [self.body]
        while stack:
            node = stack.pop()
            if node.type == "return_statement":
                found.append(node)
            elif node.type != "lambda_expression":
                stack.extend(node.named_children)
        return found

    def _value(self) -> Node | None:
        """What is made of the call's value: a variable's initialiser, or an assignment of its own."""
        outer = self.call.parent
        if outer is None or outer.parent != self.statement:
            return None
        if outer.type == "init_declarator" and outer.child_by_field_name("value") == self.call:
            return outer if len(self.statement.children_by_field_name("declarator")) == 1 else None
        right = outer.type == "assignment_expression" and outer.child_by_field_name("right") == self.call
        return outer if right else None

    def _state(self) -> Why | None:
        """What a second text of the function would have a second one of."""
        text, name = self._text(self.body), self.function.name
        if 'R"' in text or any(n.type in ("labeled_statement", "goto_statement") for n in below(self.body)):
            return "which jumps", "write it without goto"
        if self.function.template and not self.templated and re.search(r"\bif\s+constexpr\b", text):
            return "which leaves out branches by `if constexpr`", "write the loop in the kernel itself"
        if name in _reached(self.file, self.body):
            return "which calls itself", "write the loop in the kernel itself"
        if _KEPT.search(_EXTERN.sub("", text)):
            functions = [g for f in self.file.functions.values() for g in (f, *f.overloads)]
            others = [f.body for f in functions if f.node != self.function.node]
            assert self.kernel is not None
            calls = re.compile(rf"\b({name}|{self.name})\b")
            if sum(len(calls.findall((n.text or b"").decode())) for n in (self.kernel, *others)) > 1:
                return "which is called twice and keeps variables", "declare its shared arrays in the kernel"
        return None

    def _names(self) -> Why | None:
        """A name of the function that means something else where the call stands."""
        whole = self.function.node
        if whole.parent is not None and whole.parent.type == "template_declaration":
            whole = whole.parent
        own = self.function.name  # another of that name is no obstacle: it does not call itself
        for word, node in ((word, node) for word, node in uses(whole) if word != own):
            for name in self.known.with_macros([word]):
                found = self.known.bound(name, node)
                inside = found is not None and whole.start_byte <= found[0] < whole.end_byte
                if not inside and not self.known.same_name(name, node, self.call):
                    return (
                        f"whose `{name}` is another one than the `{name}` in the place of the call",
                        f"rename `{name}` in the kernel, or pass it to `{self.name}`",
                    )
                if inside and self.known.macro_between([name], self.body.start_byte, self.call.start_byte):
                    return (
                        f"and between the two the macro `{name}` changes",
                        "give the macros different names",
                    )
        return None

    # -- the text --------------------------------------------------------------------------------------------------

    def _type(self) -> str:
        node = self.function.node.child_by_field_name("type")
        declarator = self.function.node.child_by_field_name("declarator")
        plain = declarator is not None and declarator.type == "function_declarator"
        return " ".join(self._text(node).split()) if node is not None and plain else ""

    def _result(self, outside: dict[str, str]) -> str | Why:
        """The declaration of the result; "" where the call's value is not wanted."""
        if self.alone:
            return ""
        type_ = re.sub(r"\w+", lambda word: outside.get(word.group(), word.group()), self._type())
        last = re.sub(r"<.*>", "", type_).split("::")[-1].strip()
        classes = self.file.classes.get(last, ())
        known_ = type_.startswith("typename ") or self._type() in outside or _PLAIN.fullmatch(type_)
        if not (known_ or classes) or any(_acts(node, last) for node, _ in classes):
            return "whose result is of a class that may run code", "give the result a plain type"
        return f"{type_} {self.name}_result;"

    def _edited(self, declared: tuple[str, ...], edits: tuple[Edit, ...], result: str) -> CudaFile | Why:
        name = self.name
        if result and re.search(rf"\b{name}_result\b", self.file.source.text):
            return f"and `{name}_result` is the name of something else", "give it another name"
        start = self.body.start_byte + 1
        changed = [*edits, *self._returned(f"{name}_result")]
        inner = Span(start, self.body.end_byte - 1)
        text = apply_edits(self.file.source.slice(inner), [_moved(e, -start) for e in changed])
        first = self.file.source.line_of(start)
        if text.lstrip(" \t").startswith("\n"):
            text, first = text.lstrip(" \t")[1:], first + 1
        head = [f"{{  // {name}", *(f"    {line}" for line in declared)]
        if result:
            head.insert(0, result)
        lines = [*head, indent(_dedented(text), "    ", _moves), "}"]
        around = self.statement.parent
        braces = bool(result) and around is not None and around.type != "compound_statement"
        if braces:
            head, lines = ["{", *head], ["{", *(indent(line, "    ", _moves) for line in lines)]
        at = indent_of(self.file.source.data, self.statement.start_byte)
        block = indent("\n".join(lines), at, _moves).lstrip()
        own = span(self.statement)
        if result:
            edit = Edit(Span(own.start, own.start), f"{block}\n{at}{'    ' if braces else ''}")
            others = [Edit(span(self.call), f"{name}_result")]
            others += [Edit(Span(own.end, own.end), f"\n{at}}}")] if braces else []
        else:
            edit, others = Edit(own, block), []
        origin = (self.file.source.origin(start)[0], first - len(head))
        return self.file.edited([edit, *others], {edit: origin})

    def _returned(self, result: str) -> Iterator[Edit]:
        """The last return as an assignment to the result."""
        final = self._final()
        if final is None or final.type != "return_statement":
            return
        value = final.named_children[0] if final.named_children else None
        if value is None:
            yield Edit(span(final), "")
        elif self.alone:
            yield Edit(Span(final.start_byte, value.start_byte), "(void)(")
            yield Edit(Span(value.end_byte, value.end_byte), ")")
        else:
            yield Edit(Span(final.start_byte, value.start_byte), f"{result} = ")


def _acts(node: Node, name: str) -> bool:
    """Whether a class has constructors or an assignment of its own."""
    return bool(re.search(rf"\b{name}\s*\(|\boperator\s*=(?!=)", (node.text or b"").decode()))


def _dedented(text: str) -> str:
    """The lines without the margin that they share; directives have none."""
    lines = text.rstrip().split("\n")
    margin = min((len(x) - len(x.lstrip()) for x in lines if _moves(x)), default=0)
    return "\n".join(x[margin:] if _moves(x) else x for x in lines)


def _moves(line: str) -> bool:
    """Whether a line is indented: directives stay at the margin."""
    return bool(line.strip()) and not line.startswith("#")


def _moved(edit: Edit, by: int) -> Edit:
    return Edit(Span(edit.span.start + by, edit.span.end + by), edit.text)
