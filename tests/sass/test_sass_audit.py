"""The audit's verdict on a labelled set: right pipelines, and pipelines with one planted defect each."""

from __future__ import annotations

import pytest
from sass_labels import (
    ALONE,
    ALONE_SHAPES,
    CLASSES,
    DEFECTS,
    FEWER_WARPS,
    LITTLE_MATH,
    PIPELINED,
    PREFETCH,
    RIGHT_FORMS,
    STAGED,
    Label,
    alone,
    audit_form,
    labels,
    ring,
    shape_alone,
    stream_alone,
    stream_labels,
)
from sass_listings import ARCHS, HERE, ZOO, forms, listing, only_symbol, shapes
from tests.sampling import sampled

from tilepipe.evidence.sass import audit, audit_alone, diagnostics

FEW = ("sm_80", "sm_90", "sm_120")  # the rest is in the full tier
EVERY_ARCH = [a if a in FEW else pytest.param(a, marks=pytest.mark.full) for a in ARCHS]


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", sampled(RIGHT_FORMS, 4))
def test_right_forms_pass(name: str, arch: str) -> None:
    sass = audit_form(name, arch, RIGHT_FORMS[name])
    assert (sass.status, sass.codes) == ("passed", ()), sass.reasons
    assert sass.math_per_tile == sass.math_per_tile_original == 256  # 64 x 64 x 16 by 256 threads
    assert (sass.loads, sass.copy_bytes) == (2, (16,))
    assert sass.window_original == 0
    assert sass.barriers_between == sass.spills == 0
    assert sass.window is not None and sass.window_cycles is not None
    assert sass.window_cycles >= sass.window >= 64


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_spans_a_whole_tile_for_each_stage_in_flight(stages: int, arch: str) -> None:
    assert audit_form(f"ring{stages}", arch, ring(stages)).window == 256 * (stages - 1)


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_fail(name: str, arch: str) -> None:
    expectation, code = DEFECTS[name]
    sass = audit_form(name, arch, expectation)
    assert (sass.status, sass.codes) == ("failed", (code,)), sass.reasons
    (diagnostic,) = diagnostics(sass)
    assert (diagnostic.code, diagnostic.severity) == (code, "warning")
    assert arch in diagnostic.message


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("label", stream_labels(), ids=lambda label: label.kernel)
def test_what_cannot_hide_a_load_leaves_the_overlap_open_and_what_can_does_not(
    label: Label, arch: str
) -> None:
    sass = audit_form(label.kernel, arch, label.expectation)
    assert (sass.status, sass.codes) == (label.status, label.codes), sass.reasons
    if label.codes == ("TP435",):
        (reason,) = sass.reasons
        assert "4 math instructions a tile, which 256 threads issue in 8 cycles" in reason
        assert sass.math_per_tile == 4 and sass.window is not None and sass.excerpt


@pytest.mark.parametrize(
    ("threads", "status"), [(32, "unknown"), (640, "unknown"), (641, "passed"), (1024, "passed")]
)
def test_the_math_of_a_whole_block_counts(threads: int, status: str) -> None:
    """4 instructions of 6 warps a scheduler are the 24 cycles that count: a twentieth of 480."""
    assert audit_form("stream_ring2", "sm_90", ring(2, threads=threads)).status == status


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", ["root_ring2", "open_ring2"])
def test_math_that_may_take_long_is_not_called_too_little(name: str, arch: str) -> None:
    sass = audit_form(name, arch, ring(2, threads=256))
    assert (sass.status, sass.codes) == ("passed", ()), sass.reasons


@pytest.mark.parametrize("arch", EVERY_ARCH)
def test_a_stream_alone_is_open_where_its_block_is_known_to_be_small(arch: str) -> None:
    for name in ("stream_ring2", "stream_ring3", "stream_original"):
        sass = stream_alone(name, arch, threads=256)
        assert (sass.status, sass.codes) == ("unknown", ("TP435",)), sass.reasons
    assert stream_alone("stream_ring2", arch).status == "passed"
    assert stream_alone("stream_original", arch).codes == ("TP420",)
    assert stream_alone("polynomial_ring2", arch, threads=256).status == "passed"
    assert stream_alone("polynomial_original", arch, threads=256).codes == ("TP420",)


SHAPES = {
    "bytes_staged": (STAGED, None, 48, (1,)),
    "batch_ring": (ring(3), 32, 2, (4,)),
    "half_prefetch": (PREFETCH, 16, 2, (4,)),
    "tensor_mixed": (ring(2), 32, 4, (4, 16)),
}


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_real_kernels_pass(name: str, arch: str) -> None:
    if (name, arch) == ("tensor_mixed", "sm_100"):
        pytest.skip("ptxas moves the load into registers behind 15 of the 16 HMMA of this kernel on sm_100")
    expectation, math, loads, widths = SHAPES[name]
    original = f"{name.split('_', maxsplit=1)[0]}_original"
    sass = audit(shapes(arch), shapes(arch), arch, (name, original), expectation)
    assert (sass.status, sass.codes) == ("passed", ()), sass.reasons
    assert sass.math_per_tile == sass.math_per_tile_original == math
    assert (sass.loads, sass.copy_bytes) == (loads, widths)

    sass = audit(shapes(arch), shapes(arch), arch, (original, original), PREFETCH)
    assert (sass.status, sass.codes) == ("failed", ("TP420",)), sass.reasons


@pytest.mark.parametrize("name", ["tensor_uniform_scale", "tensor_late_scale"])
def test_a_load_that_feeds_the_tile_and_stalls_is_found_beside_others_that_overlap(name: str) -> None:
    """On sm_90 the uniform scale is moved into a uniform register, which waits for it, before the math."""
    text = shapes("sm_90")
    sass = audit(text, text, "sm_90", (name, "tensor_original"), ring(2))
    assert (sass.status, sass.codes) == ("failed", ("TP420",)), sass.reasons
    copies_only = audit(text, text, "sm_90", (name, "tensor_original"), ring(2, registers=False))
    assert (copies_only.status, copies_only.loads, copies_only.copy_bytes) == ("passed", 2, (16,))


def test_a_finding_names_its_first_load_and_counts_the_others() -> None:
    text = shapes("sm_90")
    sass = audit(text, text, "sm_90", ("bytes_original", "bytes_original"), PREFETCH)
    (reason,) = sass.reasons
    assert f"(and {sass.loads - 1} more loads)" in reason


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize(
    ("emitted", "original"),
    [
        ("hgemm_wmma_bias.ring", "hgemm_wmma_bias"),
        ("sgemm_copyloop.ringw_split_over", "sgemm_copyloop"),
        ("sgemm_outer84.stash", "sgemm_outer84"),
    ],
)
def test_hand_made_outputs_pass(emitted: str, original: str, arch: str) -> None:
    after = listing(HERE / "emitted" / f"{emitted}.cu", arch)
    before = listing(ZOO / f"{original}.cu", arch)
    expectation = ring(3, fallback=emitted.startswith("sgemm_copyloop"))
    sass = audit(after, before, arch, (only_symbol(after), only_symbol(before)), expectation)
    assert (sass.status, sass.codes) == ("passed", ()), sass.reasons
    assert sass.math_per_tile == sass.math_per_tile_original is not None
    assert sass.copy_bytes == (16,)


def test_an_unrolled_tile_loop_is_unknown() -> None:
    sass = audit_form("unrolled", "sm_80", ring(2))
    assert (sass.status, sass.codes) == ("unknown", ("TP430",))
    assert sass.math_per_tile is None


def test_two_loops_of_which_one_overlaps_are_unknown_unless_the_caller_knows_of_the_fallback() -> None:
    sass = audit_form("dispatched", "sm_80", STAGED)
    assert (sass.status, sass.codes) == ("unknown", ("TP431",))
    assert audit_form("dispatched", "sm_80", RIGHT_FORMS["dispatched"]).status == "passed"


def test_barriers_that_do_not_divide_leave_the_math_open() -> None:
    sass = audit_form("ring3_author_barriers", "sm_80", ring(3, barriers=2))
    assert sass.math_per_tile is None
    assert sass.status == "unknown" and sass.codes == ("TP431",)


def test_counts_of_the_emulator_replace_the_static_ones() -> None:
    both = ring(3, math_per_tile=260.0, math_per_tile_original=260.0)
    sass = audit_form("ring3", "sm_80", both)
    assert (sass.status, sass.math_per_tile, sass.math_per_tile_original) == ("passed", 260, 260)
    fewer = ring(3, math_per_tile=250.0, math_per_tile_original=260.0)
    assert audit_form("ring3", "sm_80", fewer).codes == ("TP424",)


@pytest.mark.parametrize(
    ("pipelined", "original"),
    [("", forms), (forms, ""), (lambda arch: forms(arch).replace("/* 0x", "/* "), forms)],
    ids=["no pipelined text", "no original text", "no encodings"],
)
def test_a_listing_that_cannot_be_read_is_unknown(pipelined: object, original: object) -> None:
    texts = [text("sm_80") if callable(text) else text for text in (pipelined, original)]
    sass = audit(*texts, "sm_80", ("ring3", "original"), ring(3))
    assert (sass.status, sass.codes) == ("unknown", ("TP432",))


def test_the_excerpt_shows_loads_waits_barriers_and_math_in_order() -> None:
    lines = audit_form("ring3", "sm_90", ring(3)).excerpt
    kinds = ["waits for 1, 2", "block barrier", "copy 1", "copy 2", "closes the group", "first math"]
    positions = [next(k for k, line in enumerate(lines) if line.endswith(kind)) for kind in kinds]
    assert positions == sorted(positions)
    assert any("256 since the first" in line for line in lines)
    assert not any("@!PT" in line for line in lines)


def test_the_labelled_set_is_large_and_has_every_class() -> None:
    kinds = {label.kind for label in labels()}
    assert {PIPELINED, "loads sunk", "barrier between", "immediate wait", "spilled", "un-pipelined"} <= kinds
    assert "wrong math count" in kinds and set(CLASSES) == set(DEFECTS)
    assert {LITTLE_MATH, FEWER_WARPS} <= kinds
    assert len(labels()) * len(ARCHS) >= 147


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", ALONE)
def test_a_kernel_alone_gets_the_verdict_that_its_text_allows(name: str, arch: str) -> None:
    sass = alone(name, arch)
    assert (sass.status, sass.codes) == ALONE[name], sass.reasons
    assert sass.window_original is sass.math_per_tile_original is sass.timeline_original is None


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("name", ALONE_SHAPES)
def test_shapes_of_real_kernels_alone(name: str, arch: str) -> None:
    assert shape_alone(name, arch).status == ALONE_SHAPES[name]


def test_a_symbol_that_the_listing_has_not_got() -> None:
    sass = audit_alone(forms("sm_80"), "sm_80", "absent")
    assert (sass.status, sass.codes) == ("unknown", ("TP432",))


def test_stalls_and_wait_depths_of_the_main_loop() -> None:
    sass = audit_form("ring3", "sm_90", ring(3))
    assert sass.wait_depths == (1,)
    assert set(sass.stalls) == {"FFMA", "LDGSTS"}
    assert all(1 <= least <= most <= 15 for least, most in sass.stalls.values())
    assert audit_form("staged", "sm_90", STAGED).wait_depths == ()
