"""What keeps every other instance of a template from a pipeline that was made for one: it does not compile."""

from __future__ import annotations

from collections.abc import Sequence

from tilepipe.kernel.instance import Guard
from tilepipe.kernel.model import KernelModel
from tilepipe.rewrite.lines import indent_of
from tilepipe.source import Edit, Span

Instances = Sequence[tuple[Guard, ...]]
_WIDTH = 100  # columns; longer assertions have their message on a line of its own


def guard_edit(model: KernelModel, instances: Instances) -> Edit:
    """Assertions at the top of the kernel that it is one of `instances`; nothing without any condition."""
    at = model.kernel.body.start + 1
    first = model.analysed.body.children
    indent = indent_of(model.file.source, first[0].span.start if first else at) or "    "
    return Edit(Span(at, at), "".join(_assertion(indent, g) for g in _asserted(instances)))


def _asserted(instances: Instances) -> list[Guard]:
    """What holds in all instances, and then that what is left holds for one of them."""
    shared = [g for g in instances[0] if all(g in one for one in instances)] if instances else []
    rest = [[g for g in one if g not in shared] for one in instances]
    if not rest or not all(rest):
        return shared
    conditions = [" && ".join(g.condition for g in one) for one in rest]
    words = [", ".join(g.words for g in one) for one in rest]
    bracketed = [f"({c})" if "&&" in c else c for c in conditions]
    device = any(g.device for one in rest for g in one)
    return [*shared, Guard(" || ".join(bracketed), " or ".join(words), device)]


def _assertion(indent: str, guard: Guard) -> str:
    escaped = guard.words.replace("\\", "\\\\").replace('"', '\\"')
    message = f'"tilepipe: this pipeline was made for {escaped}"'
    line = f"{indent}static_assert({guard.condition}, {message});"
    if len(line) > _WIDTH:
        line = f"{indent}static_assert({guard.condition},\n{indent}              {message});"
    return f"\n#ifdef __CUDA_ARCH__\n{line}\n#endif" if guard.device else "\n" + line
