"""Bugs planted into emitted kernels are caught, all of them, and the kernels as emitted are clean."""

from __future__ import annotations

import pytest
from tests.mutants.operators import OPERATORS, Mutant, mutants
from tests.mutants.trials import CANDIDATES, Subject, equivalence, equivalences, jobs, subject, try_text

# (kernel, candidate, operators): a few of every kind, on kernels that differ in how they load and compute.
SAMPLE = (
    (
        "sgemm_tiled",
        "cp_async-3-ring",
        ("barrier removed", "wait removed", "wait for one group less", "barrier before wait", "commit removed",
         "commit in the branch", "commit before the load", "guard always true"),
    ),
    (
        "sgemm_outer84",
        "ldg-2-ring",
        ("barrier removed", "store into the stage in use", "store before compute", "no rotation",
         "guard off by one", "advance removed"),
    ),
    ("dgemm_nt_pad", "cp_async-2-ring", ("zero-fill guard dropped", "zero-fill guard inverted", "rotation one short")),
    ("batch_loop_gemm", "cp_async-3-ring", ("barrier removed", "refill before the barrier", "advance forgotten")),
    ("qgemm_dp4a", "ldg-2-textbook", ("last tile missing", "compute from the next stage")),
    ("trmm_varlen", "cp_async-3-ring-pad", ("barrier removed", "wait for one group less", "ring one stage short")),
    (
        "igemm_wmma",
        "cp_async-3-ring-16-overrun",
        ("zero-fill guard dropped", "wait for one group less", "advance forgotten"),
    ),
    ("w8a16_groups", "mixed-2-ring", ("wait removed", "ring one stage short")),
    (
        "w8a16_groups",
        "stash-3-ring",
        ("barrier removed", "wait removed", "wait for one group less", "store before the wait", "slot of another stage",
         "slot of another thread", "one buffer of two", "store into the buffer in use", "commit in the branch",
         "guard always true", "advance forgotten"),
    ),
    ("hgemm_widen", "prefetch-1-ring", ("barrier removed", "store before compute")),
    # Tiles that many warps read, and nothing but mbarriers between them.
    ("hgemm_wmma", "cp_async-3-ring-cuda-pipeline-block", ("acquire removed",)),
    (
        "sgemm_tiled",
        "cp_async-3-ring-frags-spread",
        ("fragments before the barrier", "copies of one part only", "depth not counted"),
    ),
)  # fmt: skip
IN_SAMPLE = 25
FULL_SUBJECTS = 150  # emitted kernels (now 180 and more) and mutants: fewer means that something went missing
FULL_MUTANTS = 3000


def emitted(kernel: str, candidate: str) -> Subject:
    found = subject(kernel, candidate)
    assert found is not None, f"{kernel} is no longer emitted as {candidate}"
    return found


def sampled() -> list[tuple[str, str, str]]:
    return [(kernel, candidate, operator) for kernel, candidate, names in SAMPLE for operator in names]


def check(s: Subject, mutant: Mutant) -> str | None:
    """None where the mutant was caught or is proved equivalent, else what it did."""
    verdict = try_text(s, mutant.text)
    if verdict.caught is None and equivalence(s, mutant) is None:
        return f"{mutant.operator} at line {mutant.line} of the {mutant.region}: {mutant.was} -> {mutant.now}"
    return None


def test_the_sample_is_large_enough_and_names_operators() -> None:
    assert len(sampled()) >= IN_SAMPLE
    assert {operator for _, _, operator in sampled()} <= {o.name for o in OPERATORS}


@pytest.mark.parametrize(("kernel", "candidate"), [entry[:2] for entry in SAMPLE])
def test_as_emitted_there_is_nothing_to_find(kernel: str, candidate: str) -> None:
    s = emitted(kernel, candidate)
    assert try_text(s, s.made.text).caught is None


@pytest.mark.parametrize(("kernel", "candidate", "operator"), sampled())
def test_a_planted_bug_is_caught(kernel: str, candidate: str, operator: str) -> None:
    """The last mutant of the operator that is not known to be equivalent."""
    s = emitted(kernel, candidate)
    found = [m for m in mutants(s.made.text) if m.operator == operator and equivalence(s, m) is None]
    assert found, f"{operator} no longer applies to {kernel} as {candidate}"
    verdict = try_text(s, found[-1].text)
    assert verdict.valid, verdict.caught
    assert verdict.caught is not None


def test_a_comment_is_not_caught() -> None:
    """The trial can fail: a change that means nothing passes it."""
    s = emitted("sgemm_tiled", "cp_async-3-ring")
    assert try_text(s, s.made.text.replace("// main loop", "// the main loop")).caught is None


def every_subject() -> list[tuple[str, str]]:
    return [(kernel, candidate) for kernel in jobs() for candidate in CANDIDATES]


@pytest.mark.full
@pytest.mark.parametrize(("kernel", "candidate"), every_subject())
def test_every_mutant_is_caught_or_equivalent(kernel: str, candidate: str) -> None:
    s = subject(kernel, candidate)
    if s is None:
        pytest.skip(f"{kernel} has no {candidate}")
    assert try_text(s, s.made.text).caught is None
    missed = [missed for m in mutants(s.made.text) if (missed := check(s, m)) is not None]
    assert not missed, "\n".join(missed)


@pytest.mark.full
def test_there_are_enough_mutants_of_every_kind() -> None:
    subjects = [s for kernel, candidate in every_subject() if (s := subject(kernel, candidate)) is not None]
    everything = [m for s in subjects for m in mutants(s.made.text)]
    assert len(subjects) >= FULL_SUBJECTS
    assert len(everything) >= FULL_MUTANTS
    assert {m.operator for m in everything} == {o.name for o in OPERATORS}


@pytest.mark.full
def test_every_equivalence_is_used() -> None:
    """An entry that fits no mutant hides nothing today and could hide a bug tomorrow."""
    subjects = [s for kernel, candidate in every_subject() if (s := subject(kernel, candidate)) is not None]
    used = {equivalence(s, m) for s in subjects for m in mutants(s.made.text)}
    assert [e for e in equivalences() if e not in used] == []
