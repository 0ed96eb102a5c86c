"""The flag matrix and the rest of the ConfigMap."""

from __future__ import annotations

import pytest

from controlplane.controllers.coscheduling.flags import Flags, Mode, effective, read_flags
from controlplane.controllers.coscheduling.problems import InputRefused
from tests.support.rows import each

REFUSED = "incompatible with disable-affinity-assistant set to false"


@each(
    ("disable", "coschedule", "before", "today"),
    [
        ("false", "disabled", REFUSED, Mode.DISABLED),
        ("false", "workspaces", Mode.WORKSPACES, Mode.WORKSPACES),
        ("false", "pipelineruns", REFUSED, Mode.PIPELINERUNS),
        ("false", "isolate-pipelinerun", REFUSED, Mode.ISOLATE),
        ("true", "disabled", Mode.DISABLED, Mode.DISABLED),
        ("true", "workspaces", Mode.DISABLED, Mode.WORKSPACES),
        ("true", "pipelineruns", Mode.PIPELINERUNS, Mode.PIPELINERUNS),
        ("true", "isolate-pipelinerun", Mode.ISOLATE, Mode.ISOLATE),
    ],
)
def test_the_matrix(disable: str, coschedule: str, before: Mode | str, today: Mode) -> None:
    data = {"disable-affinity-assistant": disable, "coschedule": coschedule}
    found = read_flags(data)
    assert found.mode is today
    assert "is ignored" in found.notes[0]
    if isinstance(before, Mode):
        assert read_flags(data, old_worker=True).mode is before
    else:
        with pytest.raises(InputRefused, match=f"coschedule value {coschedule} is {before}"):
            read_flags(data, old_worker=True)


def test_defaults() -> None:
    assert read_flags({}) == Flags(mode=Mode.WORKSPACES)
    assert read_flags({}, old_worker=True).mode is Mode.WORKSPACES


@pytest.mark.parametrize("text", ["Workspaces", "PIPELINERUNS", "Isolate-PipelineRun", "Disabled"])
def test_the_mode_is_lower_cased(text: str) -> None:
    assert read_flags({"coschedule": text}).mode == text.lower()


@each("value", ["", "isolate-pipelineruns", "pipelinerun", " workspaces", "true", True, 1, None])
def test_other_modes_are_refused_by_name(value: object) -> None:
    with pytest.raises(InputRefused) as refused:
        read_flags({"coschedule": value})
    (problem,) = refused.value.problems
    assert problem.object == "ConfigMap tekton-pipelines/feature-flags"
    assert problem.field == "data.coschedule"
    assert "workspaces, pipelineruns, isolate-pipelinerun, disabled" in problem.todo


@pytest.mark.parametrize(("text", "value"), [("1", True), ("T", True), ("TRUE", True), ("f", False), ("0", False)])
def test_booleans_as_go_reads_them(text: str, value: bool) -> None:
    assert read_flags({"set-security-context": text}).set_security_context is value


@pytest.mark.parametrize("value", ["yes", "", "tRUE", True])
def test_other_booleans_are_refused(value: object) -> None:
    with pytest.raises(InputRefused, match=r"data\.set-security-context-read-only-root-filesystem"):
        read_flags({"set-security-context-read-only-root-filesystem": value})


def test_every_bad_key_is_named() -> None:
    with pytest.raises(InputRefused) as refused:
        read_flags({"coschedule": "x", "set-security-context": "y"})
    assert [one.field for one in refused.value.problems] == ["data.coschedule", "data.set-security-context"]


def test_a_bad_value_at_run_time_keeps_the_last_good() -> None:
    good = read_flags({"coschedule": "pipelineruns"})
    kept = effective(good, {"coschedule": "isolate-pipelineruns"})
    assert kept.flags is good
    assert kept.problem is not None
    assert kept.problem.field == "data.coschedule"
    assert effective(good, {"coschedule": "disabled"}).flags.mode is Mode.DISABLED
    assert effective(None, {"coschedule": "?"}).flags.mode is Mode.WORKSPACES
