"""The labelled set: kernels of known fate, compiled for every architecture, with what the audit must say."""

from __future__ import annotations

from dataclasses import dataclass

from sass_listings import forms, shapes, streams

from tilepipe.evidence.sass import Expectation, audit, audit_alone
from tilepipe.evidence.types import Sass, Status


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
LITTLE_MATH = "hardly any math"
FEWER_WARPS = "fewer warps, short window"

# kernels/stream.cu: one source with degree 1, where nothing can be told of overlap, and with degree 16.
_BLOCK = {"threads": 256}
STREAM_FORMS = {
    "ring2": ring(2, **_BLOCK),
    "ring3": ring(3, **_BLOCK),
    "staged": Expectation(asynchronous=False, threads=256),
    "original": Expectation(asynchronous=False, barriers=2, threads=256),
}
STREAM_DEFECTS = {
    "bad_no_wait": (ring(2, **_BLOCK), "TP422", "no wait"),
    "bad_barrier_before_wait": (ring(2, **_BLOCK), "TP423", "barrier before the wait"),
}

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
    "sums_staged": "passed",
    "sums_asked": "unknown",  # most of the math that hides the load stands in a branch
}


def original_of(name: str) -> str:
    """The kernel that a form was made from."""
    for family in ("stream", "polynomial", "root", "open"):
        if name.startswith(family):
            return f"{family}_original"
    for suffix in ("author_barriers", "rolled"):
        if name.endswith(suffix):
            return f"original_{suffix}"
    return "original"


def audit_form(name: str, arch: str, expectation: Expectation) -> Sass:
    """The audit of a kernel of kernels/forms.cu or kernels/stream.cu against its original."""
    original = original_of(name)
    text = forms(arch) if original.startswith("original") else streams(arch)
    return audit(text, text, arch, (name, original), expectation)


@dataclass(frozen=True)
class Label:
    """One kernel with one expectation, and what the audit must say of it on every architecture."""

    kernel: str
    kind: str
    expectation: Expectation
    status: Status
    codes: tuple[str, ...]


def labels() -> list[Label]:
    """The whole set."""
    return [
        *(Label(name, PIPELINED, e, "passed", ()) for name, e in RIGHT_FORMS.items()),
        *(Label(name, CLASSES[name], e, "failed", (code,)) for name, (e, code) in DEFECTS.items()),
        *stream_labels(),
    ]


def stream_labels() -> list[Label]:
    """Kernels with hardly any math a tile, and the same with enough of it."""
    enough = {name: e for name, e in STREAM_FORMS.items() if name != "original"}
    return [
        *(Label(f"stream_{n}", LITTLE_MATH, e, "unknown", ("TP435",)) for n, e in STREAM_FORMS.items()),
        *(Label(f"stream_{n}", kind, e, "failed", (c,)) for n, (e, c, kind) in STREAM_DEFECTS.items()),
        *(Label(f"polynomial_{n}", PIPELINED, e, "passed", ()) for n, e in enough.items()),
        Label("polynomial_original", "un-pipelined", STREAM_FORMS["original"], "failed", ("TP420",)),
        Label("polynomial_ring2", FEWER_WARPS, ring(2, warps=8, warps_original=16), "unknown", ("TP436",)),
        Label("polynomial_ring2", PIPELINED, ring(2, warps=8, warps_original=8), "passed", ()),
        Label("polynomial_ring3", PIPELINED, ring(3, warps=16, warps_original=32), "passed", ()),
    ]


def alone(name: str, arch: str) -> Sass:
    """The audit of a form as it stands."""
    return audit_alone(forms(arch), arch, name)


def stream_alone(name: str, arch: str, **known: int) -> Sass:
    """The audit of a kernel of kernels/stream.cu as it stands."""
    return audit_alone(streams(arch), arch, name, **known)


def shape_alone(name: str, arch: str) -> Sass:
    """The audit of a kernel of kernels/shapes.cu as it stands."""
    return audit_alone(shapes(arch), arch, name)
