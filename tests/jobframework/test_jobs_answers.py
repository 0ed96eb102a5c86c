"""What Kueue's own types answer of random jobs is what is answered here: pod sets, how a job stands, what it is started
with, what it is again when it stops.

The answers of `data/kinds.json.gz` are those of `PodSets`, `Finished`, `IsActive`, `IsSuspended`, `PodsReady`,
`ReclaimablePods`, `RunWithPodSetsInfo`, `Suspend` and `RestorePodSetsInfo` (kubernetes-sigs/kueue pkg/controller/jobs,
ff69552e), called by a program that reads objects. Of a TrainJob the runtime is one of them, and its pod sets are those
before the Workload is defaulted (`podSets`)."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.pod_sets import Unstartable, pod_set_facts, startable
from controlplane.controllers.jobframework.render import restored_spec, started_spec
from controlplane.controllers.jobframework.runtime_events import JobRuntimeObserved
from controlplane.controllers.jobframework.runtimes import Runtimes
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import merged
from controlplane.job_kinds.generic_job import RUNTIME
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import Json, meta
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.quantities import canonical_quantity

ANSWERS: list[tuple[Json, Json]] = json.loads(
    gzip.decompress((Path(__file__).parent / "data/kinds.json.gz").read_bytes())
)
_AMOUNTS = ("limits", "requests", "overhead")


def spelled(value: Any, name: str = "") -> Any:
    """A value without what Go leaves out, amounts canonically."""
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if not isinstance(value, dict):
        return value
    if name in _AMOUNTS:
        value = {key: canonical_quantity(one) for key, one in value.items()}
    made = {key: spelled(one, key) for key, one in value.items()}
    return {key: one for key, one in made.items() if one not in (None, "", [], {}, False)}


def sets_of(answer: Json) -> list[Json]:
    return [{**one, "template": stored_template(one["template"])} for one in answer["podSets"] or ()]


def of_webhook(said: str) -> bool:
    """Whether a job is refused as Kueue's webhook does, which the types know nothing of, or as an AppWrapper's own."""
    return "enableInTreeAutoscaling" in said or "leads to no template" in said


def composed(integration: str, job: Json) -> tuple[list[Json], str]:
    """The pod sets of a job, or why there are none."""
    try:
        return JOB_KINDS[integration].workload_pod_sets(job), ""
    except UNFIT as error:
        return [], str(error)


def seen_with(question: Json) -> Json:
    """A job with the runtime that it names."""
    runtime = question.get("runtime")
    return {**question["object"], **({RUNTIME: runtime["spec"]} if runtime is not None else {})}


def outlined(question: Json) -> list[events.PodSetFacts]:
    """What the log tells of a job's pod sets, which is made of the outlines of the job and of its runtime."""
    kind, job = JOB_KINDS[question["integration"]], question["object"]
    unresolved = {"metadata": meta(job), "spec": kind.outlined(job), "status": job.get("status") or {}}
    seen = events.QueuedJobObserved(
        namespace="n", name="a", uid="u", resource_version="1", kind=kind.kind.name, rests_on="r", unresolved=unresolved
    )
    runtimes, spec = Runtimes(), kind.outlined_runtime(question["runtime"]["spec"])
    runtimes.seen["r"] = JobRuntimeObserved(namespace="", name="r", uid="v", resource_version="1", kind="r", spec=spec)
    return runtimes.complete(seen, kind).pod_sets


def starts(job: events.QueuedJobObserved, infos: list[events.PodSetInfo], *, apart: bool) -> bool:
    try:
        startable(job, infos, apart=apart)
    except Unstartable:
        return False
    return True


@pytest.mark.parametrize("integration", sorted({question["integration"] for question, _ in ANSWERS}))
def test_answers_are_kueues(integration: str) -> None:
    kind, seen = JOB_KINDS[integration], 0
    for question, answer in ANSWERS:
        if question["integration"] != integration:
            continue
        job = seen_with(question)
        status, outcome = job.get("status") or {}, kind.outcome(job.get("status") or {})
        assert kind.suspended(job) is answer["suspended"], job
        assert (outcome is not None) is answer["finished"], job
        if outcome is not None:
            assert (outcome.message, outcome.success) == (answer["message"], answer["success"]), job
        else:
            assert kind.active(status) is answer["active"], job
        found, refused = composed(integration, job)
        if refused:
            assert answer["error"] or of_webhook(refused), (job, refused)
            continue
        assert not answer["error"], job
        assert kind.ready(job) is answer["ready"], job
        if "reclaimable" in answer and kind.reclaimable(job) is not None:
            assert kind.reclaimable(job) == {one["name"]: one["count"] for one in answer["reclaimable"] or ()}, job
        assert spelled(found) == spelled(sets_of(answer)), job
        if kind.runtimes:
            assert outlined(question) == [
                pod_set_facts({**one, "template": kind.outlined_template(one["template"])}) for one in sets_of(answer)
            ], job
        _starts_and_stops(integration, question, answer, found)
        seen += 1
    assert seen > 50


def _starts_and_stops(integration: str, question: Json, answer: Json, sets: list[Json]) -> None:
    kind, job = JOB_KINDS[integration], seen_with(question)
    named = {"labels": {}, "annotations": meta(job).get("annotations") or {}, "spec": copy.deepcopy(job["spec"])}
    infos = [
        events.PodSetInfo(
            name=one["name"],
            count=one["count"],
            labels=one.get("labels") or {},
            annotations=one.get("annotations") or {},
            node_selector=one.get("nodeSelector") or {},
            tolerations=one.get("tolerations") or [],
            gates=[gate["name"] for gate in one.get("schedulingGates") or ()],
        )
        for one in question["infos"]
    ]
    seen = events.QueuedJobObserved(
        namespace="n",
        name="a",
        uid="u",
        resource_version="1",
        kind=kind.kind.name,
        pod_sets=[pod_set_facts(one) for one in kind.facts_sets(job)],
    )
    assert starts(seen, infos, apart=kind.infos_apart) is not bool(answer["runError"]), job
    if answer["runError"]:
        return
    started = started_spec(named, infos, kind)
    assert spelled(started) == spelled(answer["run"]), job
    stopped = merged(started, kind.stopped({**job, "spec": started}))
    restored = restored_spec({**named, "spec": started}, stopped, {"podSets": sets}, kind)
    assert spelled(restored) == spelled(answer["restored"]), job
