"""The labelled set: kernels of known fate, compiled for every architecture, with what the audit must say."""

from __future__ import annotations

from dataclasses import dataclass

from sass_listings import forms, shapes

from tilepipe.evidence.sass import Expectation, audit, audit_alone
from tilepipe.evidence.types import Sass


def ring(stages: int, **more: object) -> Expectation:
    """What is expected of a ring of asynchronous copies."""
    return Expectation(asynchronous=True, stages=stages, **more)  # type: ignore[arg-type]


STAGED = Expectation(asynchronous=False)
PREFETCH = Expectation(asynchronous=False, barriers=2)
_INSIDE = {"barriers": 3, "barriers_original": 4, "author_barriers": 2}

RIGHT_FORMS = {
    "ring2": ring(2),
    "ring3": ring(3),
    "ring4": ring(4),
    "ring3_author_barriers": ring(3, **_INSIDE),
    "ring3_rolled": ring(3),
    "textbook": ring(2),
    "staged": STAGED,
    "prefetch": PREFETCH,
    "dispatched": Expectation(asynchronous=False, fallback=True),
}
DEFECTS = {  # the expectation, and the one code that the audit must give
    "original": (PREFETCH, "TP420"),
    "bad_sunk": (STAGED, "TP420"),
    "bad_used_at_once": (STAGED, "TP420"),
    "bad_waits_at_once": (ring(3), "TP420"),
    "bad_barrier_between": (PREFETCH, "TP421"),
    "bad_no_wait": (ring(2), "TP422"),
    "bad_waits_late": (ring(3), "TP422"),
    "bad_barrier_before_wait": (ring(2), "TP423"),
    "bad_half_math": (ring(3), "TP424"),
    "bad_spilled": (ring(2), "TP425"),
    "bad_trap": (ring(3), "TP426"),
    "staged": (ring(2), "TP427"),
}
CLASSES = {
    "original": "un-pipelined",
    "bad_sunk": "loads sunk",
    "bad_used_at_once": "immediate wait",
    "bad_waits_at_once": "immediate wait",
    "bad_barrier_between": "barrier between",
    "bad_no_wait": "no wait",
    "bad_waits_late": "waits late",
    "bad_barrier_before_wait": "barrier before the wait",
    "bad_half_math": "wrong math count",
    "bad_spilled": "spilled",
    "bad_trap": "trap",
    "staged": "no asynchronous copy",
}
PIPELINED = "pipelined properly"

# What a kernel looks like to whom nobody says how it was meant. Half the math, a wait that is one group late and
# copies that should be asynchronous cannot show there.
ALONE = {
    **dict.fromkeys(RIGHT_FORMS, ("passed", ())),
    "ring3_author_barriers": ("unknown", ("TP421",)),
    "dispatched": ("unknown", ("TP431",)),
    "unrolled": ("unknown", ("TP430",)),
    **{name: ("failed", (code,)) for name, (_, code) in DEFECTS.items() if name != "staged"},
    "bad_waits_late": ("passed", ()),
    "bad_half_math": ("passed", ()),
    "bad_trap": ("unknown", ("TP426",)),
}
ALONE_SHAPES = {
    "bytes_staged": "passed",
    "batch_ring": "passed",
    "half_prefetch": "passed",
    "bytes_original": "failed",
    "batch_original": "failed",
    "tensor_original": "failed",
}


def original_of(name: str) -> str:
    """The kernel that a form was made from."""
    for suffix in ("author_barriers", "rolled"):
        if name.endswith(suffix):
            return f"original_{suffix}"
    return "original"


def audit_form(name: str, arch: str, expectation: Expectation) -> Sass:
    """The audit of a kernel of kernels/forms.cu against its original."""
    return audit(forms(arch), forms(arch), arch, (name, original_of(name)), expectation)


@dataclass(frozen=True)
class Label:
    """One kernel with one expectation, and what the audit must say of it on every architecture."""

    kernel: str
    kind: str
    expectation: Expectation
    codes: tuple[str, ...]


def labels() -> list[Label]:
    """The whole set."""
    right = [Label(name, PIPELINED, e, ()) for name, e in RIGHT_FORMS.items()]
    return right + [Label(name, CLASSES[name], e, (code,)) for name, (e, code) in DEFECTS.items()]


def alone(name: str, arch: str) -> Sass:
    """The audit of a form as it stands."""
    return audit_alone(forms(arch), arch, name)


def shape_alone(name: str, arch: str) -> Sass:
    """The audit of a kernel of kernels/shapes.cu as it stands."""
    return audit_alone(shapes(arch), arch, name)
