import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.samples import PIPELINED, RACY

from tilepipe.diagnostics import error, refusal
from tilepipe.evidence.types import Benchmark, Correctness, Races, Sass, SizeResult, Timing
from tilepipe.launch.types import Finding
from tilepipe.report import Evidence, RunReport, refused_report, to_json, with_checklist

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text(encoding="utf-8"))


def closed(schema: Any) -> Any:
    """`schema` with every object closed, so that an undeclared field is a mistake."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in inner else inner


VALIDATOR = jsonschema.Draft202012Validator(closed(SCHEMA))


def valid(report: RunReport) -> dict[str, Any]:
    """The JSON of `report`, read back from text, after validation."""
    value: dict[str, Any] = json.loads(json.dumps(to_json(report), allow_nan=False))
    VALIDATOR.validate(value)
    return value


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_schema_violation_is_noticed() -> None:
    value = to_json(PIPELINED)
    value["outcome"] = "splendid"
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(value)


@pytest.mark.parametrize(
    "report",
    [
        PIPELINED,
        RACY,
        with_checklist(PIPELINED),
        RunReport(),
        refused_report(refusal("TP012", "no")),
        replace(PIPELINED, output="out.cu"),
    ],
    ids=["pipelined", "racy", "checklist", "empty", "refused", "written"],
)
def test_results_fit_the_schema(report: RunReport) -> None:
    valid(report)


def test_the_published_names() -> None:
    value = valid(with_checklist(PIPELINED))
    assert value["tool"] == {
        "name": "tilepipe",
        "version": PIPELINED.tool.version,
        "toolchain": "nvrtc 13.5",
        "device": "NVIDIA H200, driver 580.159",
    }
    assert value["kernel"] == {"name": "igemm", "file": "igemm.cu", "line": 17, "instantiation": None}
    assert value["diagnostics"][0]["column"] == 5
    assert value["ratio"]["class"] == "high"
    assert value["budget"][0] == {
        "stages": 1,
        "shared_bytes": 8192,
        "blocks_per_sm": 9,
        "warps_per_sm": 36,
        "limit": "registers",
    }
    assert value["candidates"][0]["copy_bytes"] == {"smem_a": 16, "smem_b": 16}
    assert value["evidence"]["correctness"]["sizes"]["target"]["sampled"] == [16, 4096]
    assert value["evidence"]["benchmark"]["candidates"]["cp_async-3-ring"]["speedup"] == 1.72
    assert value["output"] is None
    assert value["source"] == PIPELINED.source


def test_a_written_source_is_named_and_not_repeated() -> None:
    value = valid(replace(PIPELINED, output="out.cu"))
    assert value["output"] == "out.cu"
    assert "source" not in value


def test_what_is_not_known_is_absent() -> None:
    assert sorted(valid(RunReport())) == ["diagnostics", "schema_version", "tool"]


def test_numbers_that_json_lacks_are_left_out() -> None:
    sizes = {"small": SizeResult(False, math.nan, math.inf, False)}
    report = RunReport(evidence=Evidence(Correctness("failed", sizes)))
    assert valid(report)["evidence"]["correctness"]["sizes"]["small"] == {
        "bitwise": False,
        "within_tolerance": False,
    }


def test_an_error_fails_and_a_refusal_refuses() -> None:
    assert refused_report(error("TP142", "no")).outcome == "failed"
    refused = refused_report(refusal("TP012", "no"), PIPELINED)
    assert refused.outcome == "refused"
    assert [d.code for d in refused.diagnostics] == ["TP012", "TP140"]


STATUS = st.sampled_from(["passed", "failed", "unknown"])
ERROR = st.none() | st.floats(0)
TIMING = st.builds(
    Timing, st.floats(0, 1e6), st.floats(0, 1), st.none() | st.floats(0, 9), st.none() | st.floats(0, 9)
)
FINDINGS = st.lists(st.builds(Finding, st.text(), st.text()), max_size=2).map(tuple)


@given(
    st.builds(
        Evidence,
        st.none()
        | st.builds(
            Correctness,
            STATUS,
            st.dictionaries(
                st.text(),
                st.builds(SizeResult, st.none() | st.booleans(), ERROR, ERROR, st.none() | st.booleans()),
            ),
        ),
        st.none() | st.builds(Races, STATUS, findings=FINDINGS, original_findings=FINDINGS),
        st.none() | st.builds(Sass, STATUS, window=st.none() | st.integers(0)),
        st.none()
        | st.builds(
            Benchmark, STATUS, original=st.none() | TIMING, candidates=st.dictionaries(st.text(), TIMING)
        ),
    )
)
def test_any_evidence_fits_the_schema(evidence: Evidence) -> None:
    valid(RunReport(evidence=evidence))
