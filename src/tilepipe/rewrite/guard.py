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
    several = len(instances) > 1
    conditions = [" && ".join(g.condition for g in one) for one in instances]
    words = [", ".join(g.words for g in one) for one in instances]
    if not all(conditions) or not conditions:
        asserted = []
    elif several:
        asserted = [(" || ".join(f"({c})" for c in conditions), " or for ".join(words))]
    else:
        asserted = [(g.condition, g.words) for g in instances[0]]
    first = model.analysed.body.children
    indent = indent_of(model.file.source, first[0].span.start if first else at) or "    "
    return Edit(Span(at, at), "".join(_assertion(indent, c, w) for c, w in asserted))


def _assertion(indent: str, condition: str, words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    message = f'"tilepipe: this pipeline was made for {escaped}"'
    line = f"{indent}static_assert({condition}, {message});"
    if len(line) > _WIDTH:
        line = f"{indent}static_assert({condition},\n{indent}              {message});"
    return "\n" + line
