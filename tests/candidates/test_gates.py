"""A source pod with readiness gates: the conditions that somebody sets on it reach its delegate, whose kubelet waits
for them, and go from it when they are taken away; nothing that a cluster says of its own pods goes to another one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.readiness import APPLIED, are_applied
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source import gates
from controlplane.controllers.candidates.source.delegate_status import FOLLOWED
from controlplane.controllers.candidates.source.events import GatesSet
from controlplane.controllers.candidates.source.observations import CandidateBound
from controlplane.controllers.candidates.target.events import HERE, CandidateObserved, PodGatesSet, TargetWriteFailed
from controlplane.controllers.candidates.target.observe import candidate as seen_by_target
from controlplane.kube.kinds import Json
from tests.candidates.stage import Stage, pod
from tests.candidates.test_changes import delegate
from tests.candidates.test_unread import candidate

GATE = "example.com/registered"
AT = "2026-01-01T00:00:00Z"


def stands(status: str = "True", kind: str = GATE, **more: str) -> Json:
    return {"type": kind, "status": status, "reason": "Done", "message": "it is", "lastTransitionTime": AT, **more}


def gated(*types: str) -> Stage:
    stage = Stage("a", "b")
    named = [{"conditionType": one} for one in types or (GATE,)]
    stage.home["pods"]["web"] = pod(spec={"readinessGates": named})
    stage.delegated("a").settle()
    stage.run("a")
    return stage.settle()


def say(stage: Stage, *said: Json, settled: bool = True) -> Stage:
    """Somebody in the source sets conditions on the pod."""
    found = stage.home["pods"]["web"]
    others = [one for one in found["status"].get("conditions", []) if one["type"] not in {s["type"] for s in said}]
    changed = {**found, "status": {**found["status"], "conditions": [*others, *said]}}
    stage.home = {**stage.home, "pods": {"web": changed}}
    return stage.settle() if settled else stage


def has(stage: Stage, kind: str = GATE) -> Json:
    listed = delegate(stage)["status"].get("conditions") or []
    return next((one for one in listed if one["type"] == kind), {})


def there(stage: Stage, *said: Json) -> None:
    """Somebody in the target sets conditions on the delegate."""
    key, store = stage.only("a"), stage.stores["a"]
    found = store["pods"][key]
    others = [one for one in found["status"].get("conditions", []) if one["type"] not in {s["type"] for s in said}]
    pods = {**store["pods"], key: {**found, "status": {**found["status"], "conditions": [*others, *said]}}}
    stage.stores["a"] = {**store, "pods": pods}


def test_what_is_said_here_is_said_there_and_follows_every_change() -> None:
    stage = gated()
    assert has(stage) == {}
    assert has(say(stage, stands("False"))) == stands("False")
    assert has(say(stage, stands())) == stands()
    assert not [one for one in stage.look() if isinstance(one, GatesSet)]
    assert not [one for one in stage.target_look("a") if isinstance(one, PodGatesSet)]


def test_only_what_the_pod_waits_for_goes_there() -> None:
    stage = say(gated(GATE, "Ready", "PodScheduled"), stands(kind="example.com/other"), stands(kind="Initialized"))
    (key,) = stage.stores["a"]["candidates"]
    assert stage.stores["a"]["candidates"][key]["spec"]["conditions"] == []
    assert has(stage, "example.com/other") == {}


def test_a_pod_without_gates_has_nothing_said_of_them() -> None:
    stage = Stage("a").delegated("a").settle()
    (found,) = stage.stores["a"]["candidates"].values()
    assert "conditions" not in found["spec"]


@pytest.mark.parametrize("kind", ["PodScheduled", "Ready", GATE])
def test_a_target_takes_no_condition_that_its_pod_does_not_wait_for(kind: str) -> None:
    """A source that means harm writes what it likes into its Candidate."""
    stage = Stage("a").delegated("a").settle()
    stage.run("a")
    key, store = stage.only("a"), stage.stores["a"]
    found = store["candidates"][key]
    spec = {**found["spec"], "conditions": [stands("Unknown", kind)]}
    stage.stores["a"] = {**store, "candidates": {key: {**found, "spec": spec}}}
    assert not [one for one in stage.target_look("a") if isinstance(one, PodGatesSet)]


def test_what_somebody_there_changes_is_not_fought_over() -> None:
    stage = say(gated(), stands("True"))
    there(stage, stands("False", reason="Drained"))
    for _ in range(3):
        stage.settle()
    assert has(stage)["reason"] == "Drained"
    assert has(say(stage, stands("True", message="again"))) == stands("True", message="again")


def unsay(stage: Stage, *kinds: str, settled: bool = True) -> Stage:
    """Somebody in the source takes conditions away from the pod."""
    found = stage.home["pods"]["web"]
    left = [one for one in found["status"]["conditions"] if one["type"] not in kinds]
    stage.home = {**stage.home, "pods": {"web": {**found, "status": {**found["status"], "conditions": left}}}}
    return stage.settle() if settled else stage


OTHER = "example.com/other"


def test_what_is_taken_away_here_goes_there_and_nothing_else() -> None:
    stage = say(gated(GATE, OTHER), stands(), stands("False", OTHER))
    there(stage, stands(kind="example.com/theirs"))
    unsay(stage, GATE)
    assert has(stage) == {}
    assert has(stage, OTHER) == stands("False", OTHER)
    assert has(stage, "example.com/theirs") == stands(kind="example.com/theirs")
    assert not [one for one in stage.target_look("a") if isinstance(one, PodGatesSet)]
    assert has(say(stage, stands())) == stands()


def test_what_somebody_there_changed_stays_when_it_is_taken_away_here() -> None:
    stage = say(gated(), stands("True"))
    there(stage, stands("False", reason="Drained"))
    stage.settle()
    assert has(unsay(stage, GATE))["reason"] == "Drained"


def test_what_the_pod_said_by_itself_stays() -> None:
    stage = gated()
    there(stage, stands("Unknown"))
    stage.settle()
    assert has(unsay(say(stage, stands(kind=OTHER)), OTHER)) == stands("Unknown")


def test_a_source_that_says_nothing_of_them_any_more_has_taken_nothing_away() -> None:
    """Its CRD there was replaced by an older one, which drops what it does not know."""
    stage = say(gated(), stands())
    key, store = stage.only("a"), stage.stores["a"]
    found = store["candidates"][key]
    spec = {name: value for name, value in found["spec"].items() if name != "conditions"}
    stage.stores["a"] = {**store, "candidates": {key: {**found, "spec": spec}}}
    stage.settle()
    assert has(stage) == stands()


def test_what_is_taken_away_names_the_version_that_was_seen() -> None:
    """Somebody there may change it in the same moment: that is not ours any more."""
    stage = say(gated(), stands())
    unsay(stage, GATE, settled=False)
    stage.look()
    stage.send()
    (said,) = [one for one in stage.target_look("a") if isinstance(one, PodGatesSet)]
    assert (said.conditions, said.removed) == ([], [GATE])
    there(stage, stands("False", reason="Drained"))
    stage.target_send("a")
    assert has(stage.settle())["reason"] == "Drained"


def test_a_write_that_did_not_come_through_leaves_the_one_before_ours() -> None:
    stage = say(gated(), stands("False"))
    say(stage, stands("True"), settled=False)
    stage.look()
    stage.send()
    assert [one for one in stage.target_look("a") if isinstance(one, PodGatesSet)]
    for state in stage.sides["a"].values():
        key = f"{HERE}/{PodGatesSet.WHAT}"
        no = TargetWriteFailed(
            target=key, action="", code=500, error="", message="", failures=1, retry_at=stage.now + timedelta(hours=1)
        )
        stage.target_fold("a", state.name, no)
    assert has(stage) == stands("False")
    unsay(stage, GATE).tick(3600).settle()
    assert has(stage) == {}


def test_it_reaches_the_pod_that_takes_the_place_of_a_lost_one() -> None:
    stage = say(gated(), stands())
    stage.lose_pod("a")
    stage.settle().delegated("b")
    stage.run("b")
    stage.settle()
    (found,) = stage.stores["b"]["pods"].values()
    assert stands() in found["status"]["conditions"]


def test_a_target_whose_crd_is_older_is_told_nothing_and_the_pod_says_so() -> None:
    stage = gated()
    key, store = stage.only("a"), stage.stores["a"]
    found = store["candidates"][key]
    spec = {name: value for name, value in found["spec"].items() if name != "conditions"}
    stage.stores["a"] = {**store, "candidates": {key: {**found, "spec": spec}}}
    say(stage, stands())
    said = stage.said(FOLLOWED)
    assert f"its readinessGates: {GATE} cannot be told to a" in said
    assert not [one for one in stage.look() if isinstance(one, GatesSet)]


def by_an_older_scheduler(stage: Stage) -> Stage:
    """The Candidates' status is as a scheduler writes it that knows nothing of readiness gates; it writes no more."""
    for name, store in stage.stores.items():
        found = {}
        for key, obj in store["candidates"].items():
            listed = [one for one in obj["status"].get("conditions", []) if one["type"] != APPLIED]
            found[key] = {**obj, "status": {**obj["status"], "conditions": listed}}
        stage.stores[name] = {**store, "candidates": found}
    for _ in range(4):
        stage.look()
        stage.send()
    return stage


def test_a_scheduler_that_is_older_than_its_crd_is_named_until_it_is_upgraded() -> None:
    stage = say(gated(), stands())
    assert "readinessGates" not in stage.said(FOLLOWED)
    said = by_an_older_scheduler(stage).said(FOLLOWED)
    assert said == f"its readinessGates: {GATE} are not set by the scheduler of a, which is older: upgrade it"
    assert "readinessGates" not in stage.settle().said(FOLLOWED)


def test_a_pod_without_gates_has_nothing_said_of_a_scheduler() -> None:
    stage = Stage("a").delegated("a").settle()
    stage.run("a")
    (found,) = stage.stores["a"]["candidates"].values()
    assert not are_applied(found["status"])
    assert by_an_older_scheduler(stage.settle()).said(FOLLOWED) == ""


def test_of_what_an_earlier_version_has_recorded_it_is_not_known() -> None:
    stage = say(gated(), stands())
    assert stage.state.pod is not None
    known = stage.state.chosen
    assert known is not None
    assert isinstance(known.seen, CandidateBound)
    for applied, untold in ((None, False), (True, False), (False, True)):
        seen = msgspec.structs.replace(known.seen, gates_applied=applied)
        assert bool(gates.untold(stage.state.pod, "a", seen)) is untold


@pytest.mark.parametrize(
    ("asked", "conditions"),
    [("all", []), ([{"conditionType": 5}], []), ([{"conditionType": GATE}], [7]), ([{"conditionType": GATE}], "none")],
)
def test_what_cannot_be_read_of_them_is_refused_by_name(asked: Any, conditions: Any) -> None:
    """The template is checked by no API server before it is a Pod's."""
    found = candidate()
    template = {**found["spec"]["template"]["spec"], "readinessGates": asked}
    spec = {**found["spec"], "template": {"spec": template}, "conditions": conditions}
    head = {**found["metadata"], "resourceVersion": "1"}
    event = seen_by_target({**found, "metadata": head, "spec": spec})[1]
    assert isinstance(event, CandidateObserved)
    assert event.problem == TargetReason.INVALID_POD
