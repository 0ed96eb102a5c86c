"""What is told of a Workload is told of its own objects: not what a new list says of the one that had its name before,
nor what becomes of another pod of its group."""

from __future__ import annotations

from datetime import timedelta

from controlplane.audit.lanes import workload_lanes
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue import observations
from controlplane.kube.kinds import PODS
from tests.audit.ordeals import WORKERS, ask
from tests.audit.script import Life, Script
from tests.audit.test_lanes import words

NAME = "w-0a1b2"


def again(script: Script, first: Life) -> Life:
    """The Workload of that name that a list shows, which says after that that the one before is gone."""
    second = script.workload(NAME)
    second.uid, second.job_uid = "second", "job-second"
    second.job().seen({"QuotaReserved": ("Pending", "the queue is full")})
    return second.put(observations.WorkloadGone(namespace="default", name=NAME, uid=first.uid))


def of_the_group(life: Life, name: str, **fields: object) -> Life:
    """A pod of the group of a Workload, on a."""
    identity = {**life.identity(f"uid-{name}"), "name": name}
    told = {"kind": PODS.name, "prebuilt": life.name, "status": "11", "inactive": False, **fields}
    return life.put(observations.RemoteJobObserved(**{**identity, **told}), "a")


def gone_of_the_group(life: Life, name: str) -> Life:
    gone = observations.RemoteJobGone(namespace="default", name=name, uid=f"uid-{name}", kind=PODS.name)
    return life.put(gone, "a")


def test_what_has_ended_is_told_up_to_its_own_end() -> None:
    script = Script(*WORKERS)
    second = again(script, script.workload(NAME).job().offered(*WORKERS))
    script.now += timedelta(minutes=10)
    texts = [statement.text for statement in ask(second.gone()).statements]
    assert texts == ["in all it was queued for 10m2s", "it never ran"]


def test_what_is_admitted_where_it_was_submitted_runs_until_its_own_end() -> None:
    script = Script(*WORKERS)
    first = script.workload(NAME).job().seen({"QuotaReserved": True}, check="")
    second = script.workload(NAME)
    second.uid = "second"
    second.seen({"QuotaReserved": True, "Admitted": True}, check="")
    second.put(observations.WorkloadGone(namespace="default", name=NAME, uid=first.uid))
    script.now += timedelta(minutes=2)
    second.seen({"Finished": ("Succeeded", "done")}, check="")
    texts = [statement.text for statement in ask(second).statements if statement.about == "Ran"]
    assert [text.partition(" for ")[2] for text in texts] == ["2m2s"]


def test_the_lane_of_a_workload_that_was_made_again_goes_on() -> None:
    script = Script("a")
    second = again(script, script.workload(NAME).runs("a"))
    bars = workload_lanes(script.recorded, second.stream)[0].bars
    assert (bars[-1].word, bars[-1].until) == ("pending", None)


def test_the_lane_of_a_copy_that_was_made_again_goes_on() -> None:
    life = Script("a").workload(NAME).runs("a")
    uid, life.job_uid = life.job_uid, "another"
    life.remote_job("a", status="33", inactive=False)
    life.job_uid = uid
    life.remote_job_gone("a")
    assert words(life)["a"][-1] == "running"


def test_the_lane_of_a_group_shows_its_first_pod() -> None:
    script = Script("a")
    life = script.workload(NAME, job="w-pod-0").offered("a")
    life.clone("a", {"QuotaReserved": True}).clone("a", {"Admitted": True}).decide()
    of_the_group(life, "w-pod-0")
    of_the_group(life, "w-pod-1", suspended=True, inactive=True)
    gone_of_the_group(life, "w-pod-1")
    assert words(life)["a"][-1] == "running"
    assert words(life)[MANAGEMENT][-1] == "reserved"
