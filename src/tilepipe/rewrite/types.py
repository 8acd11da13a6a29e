"""The result of a rewrite: new source text and what the launch has to know about it."""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.source import Edit


@dataclass(frozen=True)
class Rewrite:
    """One candidate applied to one kernel.

    `text` is the whole new file; `edits` the edits on the original (of a padded candidate: on the padded original)
    that make it. `stages_factor` multiplies
    the launch's dynamic shared bytes (1: unchanged) and `extra_dynamic_shared` is added to them; both are
    what the *launch* must change. `edited_launches` are lines of launches in the file that were edited. `promised` are
    conditions on parameters and blocks that every launch must meet; `fallback` says that the author's loop stands
    beside the pipelined one.
    """

    candidate: str
    text: str
    edits: tuple[Edit, ...]
    stages_factor: int = 1
    extra_dynamic_shared: int = 0
    edited_launches: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    promised: tuple[str, ...] = ()
    fallback: bool = False

    @property
    def needs_launch_change(self) -> bool:
        """Whether a launch must ask for another amount of dynamic shared memory than before."""
        return self.stages_factor != 1 or self.extra_dynamic_shared > 0
