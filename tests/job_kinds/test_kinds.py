"""What holds of every kind of job, by the rows; and of the one that a newcomer is shown how to write."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from controlplane.job_kinds import INTEGRATIONS, JOB_KINDS, adapters_for, named
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.custom import parse
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PREBUILT
from controlplane.simulation.apiserver.patches import merge_patch
from tests.job_kinds.rows import ROWS, TEMPLATE, Row, ended
from tests.support.rows import each

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/first-change.md"


def shown() -> JobKind:
    """The kind of the page `Your first change`."""
    found: dict[str, Any] = {}
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), found)
    kind: JobKind = found["Render"]()
    return kind


OF_THE_PAGE = Row(
    spec={"replicas": 3, "template": TEMPLATE},
    pods=(("frames", 3),),
    running={"running": 3},
    succeeded=ended("Done"),
    failed=ended("Broken"),
)
EVERY = [pytest.param(JOB_KINDS[name], row, id=name) for name, row in ROWS.items()]
EVERY.append(pytest.param(shown(), OF_THE_PAGE, id="of the page"))
every = each(("kind", "row"), EVERY)


def changed(job: Json, part: Json) -> Json:
    return {**job, "spec": merge_patch(copy.deepcopy(job["spec"]), part)}


def test_every_kind_has_a_row() -> None:
    assert ROWS.keys() == JOB_KINDS.keys()
    assert {kind.gvk for kind in INTEGRATIONS} <= set(adapters_for(JOB_KINDS))


def test_an_unknown_integration_is_named() -> None:
    with pytest.raises(KeyError, match="render"):
        adapters_for(["batch/job", "example.com/render"])


@every
def test_it_is_stopped_started_and_given_to_another_controller(kind: JobKind, row: Row) -> None:
    job = row.job(uid="u")
    assert not kind.suspended(job)
    assert kind.managed_by(job) == ""
    stopped = changed(job, kind.stopped(job))
    assert kind.suspended(stopped)
    assert not kind.suspended(changed(stopped, kind.started()))
    delegated = changed(stopped, kind.delegated(MULTIKUEUE))
    assert kind.managed_by(delegated) == (MULTIKUEUE if kind.delegates and kind.dispatched else "")
    assert kind.suspended(delegated), "nothing else of it is changed"


@every
def test_a_copy_waits_and_is_its_workers_own(kind: JobKind, row: Row) -> None:
    body = {
        "labels": {"team": "blue"},
        "annotations": {"note": "x"},
        "spec": changed(row.job(), kind.delegated(MULTIKUEUE))["spec"],
    }
    before = copy.deepcopy(body)
    copy_ = kind.clone(body, "team", "train", "train-wl", "here")
    assert body == before
    assert (copy_["apiVersion"], copy_["kind"]) == (kind.kind.api_version, kind.kind.kind)
    assert kind.suspended(copy_)
    assert kind.managed_by(copy_) == ""
    assert copy_["metadata"]["labels"] == {"team": "blue", ORIGIN_LABEL: "here"}
    bound = {} if kind.composed else {PREBUILT: "train-wl"}
    assert copy_["metadata"]["annotations"] == {"note": "x", **bound}
    assert kind.pod_sets(copy_) == kind.pod_sets(row.job())


@every
def test_its_pod_sets_are_those_of_kueue(kind: JobKind, row: Row) -> None:
    job = row.job()
    found = kind.pod_sets(job)
    assert [(one["name"], one["count"]) for one in found] == list(row.pods)
    templates = kind.templates(job)
    assert len(templates) == row.templates
    found[0]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    assert kind.pod_sets(job)[0]["template"] != found[0]["template"], "a pod set is a copy"


@every
def test_templates_are_put_in_place(kind: JobKind, row: Row) -> None:
    job = row.job()
    if not kind.pods(job):
        assert kind.with_templates(kind.templates(job), job) == {}
        return
    directed = [{**one, "metadata": {"labels": {"at": str(at)}}} for at, one in enumerate(kind.templates(job))]
    moved = changed(job, kind.with_templates(directed, job))
    assert kind.templates(moved) == directed
    assert changed(moved, kind.with_templates(kind.templates(job), moved)) == job


@every
def test_how_it_stands(kind: JobKind, row: Row) -> None:
    assert not kind.active({})
    assert kind.outcome({}) is None
    assert kind.active(row.running)
    assert kind.outcome(row.running) is None
    for status, success in ((row.succeeded, True), (row.failed, False)):
        outcome = kind.outcome(status) if status is not None else None
        assert (outcome is None) is (status is None)
        if status is None or outcome is None:
            continue
        assert outcome.success is success
        assert outcome.message
        assert not kind.active(status)


@every
def test_brought_to_rest_nothing_runs_and_an_end_stays(kind: JobKind, row: Row) -> None:
    before = copy.deepcopy(row.running)
    assert not kind.active(kind.drained(row.running))
    assert row.running == before
    assert kind.drained({}) == {}
    for status in (row.succeeded, row.failed):
        if status is not None:
            assert kind.outcome(kind.drained(status)) == kind.outcome(status)


def test_a_custom_kind_is_named_as_in_kueues_configuration() -> None:
    (found,) = adapters_for(["Policy.v1alpha1.batch.example.com"]).values()
    assert found.kind.gvk == "batch.example.com/v1alpha1, Kind=Policy"
    assert found.kind.plural == "policies"
    assert named(found.kind.gvk) == "Policy.v1alpha1.batch.example.com"
    assert {one.integration for one in JOB_KINDS.values()} == {named(one.kind.gvk) for one in JOB_KINDS.values()}


@pytest.mark.parametrize("name", ["Render", "Render.v1", "render.v1.example.com", "Render.1.example.com", ""])
def test_what_names_no_kind_says_what_it_should_be_like(name: str) -> None:
    with pytest.raises(ValueError, match=r"Kind\.version\.group"):
        parse(name)


def test_a_custom_jobs_copy_is_as_it_is_but_for_who_manages_it() -> None:
    (kind,) = adapters_for(["Render.v1.example.com"]).values()
    spec = {"managedBy": MULTIKUEUE, "frames": 3, "suspend": False}
    assert kind.clone({"spec": spec}, "team", "train", "wl", "here")["spec"] == {"frames": 3, "suspend": False}
    assert kind.active({"phase": "Running"})
    assert not kind.tells_activity()
    assert kind.drained({"phase": "Running"}) == {}


@pytest.mark.parametrize("gvk", ["v1, Kind=ReplicationController", "apps/v1, Kind=DaemonSet", "nonsense", ""])
def test_a_kind_that_only_a_later_version_dispatches_has_no_name_here(gvk: str) -> None:
    assert named(gvk) == ""
