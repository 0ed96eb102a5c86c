"""A source pod is changed after it was sent: its candidates and its delegate follow, as far as a Pod may be changed,
and what cannot follow is said on it.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.objects import FINALIZER, TEMPLATE
from controlplane.controllers.candidates.source.delegate_status import FOLLOWED
from controlplane.controllers.candidates.source.events import CandidateAmended, CandidateWriteFailed, PermitGranted
from controlplane.controllers.candidates.target.decide import target_decide
from controlplane.controllers.candidates.target.events import (
    AmendmentRefused,
    PodAmended,
    PodRemoved,
    TargetWriteFailed,
)
from controlplane.kube.kinds import STRATEGIC_PATCH, Json
from tests.candidates.stage import NS, Stage, pod

TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
ADDED = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def change(stage: Stage, **parts: Any) -> None:
    """Change the source pod as its user does; a section of it is merged."""
    found = stage.home["pods"]["web"]
    changed = {**found, **{part: {**found.get(part, {}), **value} for part, value in parts.items()}}
    stage.home = {**stage.home, "pods": {"web": changed}}


def delegate(stage: Stage, name: str = "a") -> Json:
    return dict(stage.stores[name]["pods"][stage.only(name)])


def alter(stage: Stage, spec: Json, name: str = "a") -> None:
    """Let somebody in the target change the delegate."""
    key, store = stage.only(name), stage.stores[name]
    found = store["pods"][key]
    pods = {**store["pods"], key: {**found, "spec": {**found["spec"], **spec}}}
    stage.stores[name] = {**store, "pods": pods}
    stage.target_turn(name)


def condition(stage: Stage) -> tuple[str, str]:
    conditions = stage.home["pods"]["web"]["status"].get("conditions", [])
    found = [entry for entry in conditions if entry["type"] == FOLLOWED]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def running(**more: Any) -> Stage:
    stage = Stage("a", "b")
    stage.home["pods"]["web"] = pod(
        metadata={"labels": {"app": "web", "old": "x"}, "annotations": {"note": "1"}}, **more
    )
    stage.delegated("a").settle()
    stage.run("a")
    return stage.settle()


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": [{"name": "c", "image": "j"}]}, {"containers": [{"name": "c", "image": "j", "extra": True}]}),
        ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": 60}),
        ({"terminationGracePeriodSeconds": 1}, {"terminationGracePeriodSeconds": 1}),
        ({"tolerations": [TOLERATION]}, {"tolerations": [ADDED, TOLERATION]}),
    ],
)
def test_what_the_api_lets_be_changed_reaches_the_delegate(spec: Json, wanted: Json) -> None:
    stage = running()
    alter(stage, {"tolerations": [ADDED], "containers": [{"name": "c", "image": "i", "extra": True}]})
    before = delegate(stage)
    change(stage, spec=spec)
    stage.settle()
    found = delegate(stage)
    assert {field: found["spec"][field] for field in wanted} == wanted
    assert found["metadata"]["uid"] == before["metadata"]["uid"], "it is the same pod"
    assert found["spec"]["nodeName"] == before["spec"]["nodeName"]
    assert condition(stage) == ("", "")


def test_labels_and_annotations_come_and_go_and_what_the_target_added_stays() -> None:
    stage = running()
    key, store = stage.only("a"), stage.stores["a"]
    metadata = store["pods"][key]["metadata"]
    metadata = {
        **metadata,
        "labels": {**metadata["labels"], "mesh": "on"},
        "annotations": {**metadata["annotations"], "ip": "1"},
    }
    stage.stores["a"] = {**store, "pods": {**store["pods"], key: {**store["pods"][key], "metadata": metadata}}}
    change(stage, metadata={"labels": {"app": "web", "new": "y"}, "annotations": {}})
    stage.settle()
    found = delegate(stage)["metadata"]
    assert {"app", "new", "mesh"} <= found["labels"].keys()
    assert "old" not in found["labels"]
    assert found["annotations"].keys() == {"ip", TEMPLATE}


def test_a_scheduler_that_lost_its_log_changes_what_it_finds() -> None:
    stage = running()
    stage.sides["a"] = {}
    stage.target_turn("a")
    change(stage, metadata={"labels": {"app": "web"}}, spec={"containers": [{"name": "c", "image": "j"}]})
    stage.settle()
    assert "old" not in delegate(stage)["metadata"]["labels"]
    assert [one["image"] for one in delegate(stage)["spec"]["containers"]] == ["j"]


def test_candidates_that_wait_follow_too_before_anything_runs() -> None:
    stage = Stage("a", "b").ask()
    change(stage, spec={"tolerations": [TOLERATION]})
    stage.settle()
    for name in ("a", "b"):
        assert delegate(stage, name)["spec"]["tolerations"] == [TOLERATION]


def test_it_is_done_once_and_again_when_it_was_lost() -> None:
    stage = running()
    change(stage, metadata={"labels": {"app": "other"}})
    said = stage.look()
    assert [type(one) for one in said if isinstance(one, CandidateAmended)] == [CandidateAmended]
    stage.settle()
    written = len([one for one in stage.decided if isinstance(one, CandidateAmended)])
    stage.settle()
    assert len([one for one in stage.decided if isinstance(one, CandidateAmended)]) == written
    (request,) = amendments(changed_again(stage))
    assert (request.uid, bool(request.resource_version)) == (delegate(stage)["metadata"]["uid"], True)
    stage.run("a", restarts=1)  # it was on its way, and the Pod has changed since: the server says no
    stage.settle()
    assert delegate(stage)["metadata"]["labels"]["app"] == "third"


def changed_again(stage: Stage) -> Stage:
    change(stage, metadata={"labels": {"app": "third"}})
    stage.look()
    stage.send()
    stage.target_look("a")
    return stage


def amendments(stage: Stage) -> list[Any]:
    return [one for one in stage.target_requests("a") if one.content_type == STRATEGIC_PATCH]


def test_a_pod_that_is_being_bound_is_left_alone_until_that_is_known() -> None:
    stage = Stage("a", "b").permitted("a")
    stage.target_turn("a")
    assert stage.bind("a")
    change(stage, metadata={"labels": {"app": "other"}})
    stage.look()
    stage.send()
    assert not [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    stage.settle()
    assert delegate(stage)["spec"]["nodeName"] == "node-a"
    assert delegate(stage)["metadata"]["labels"]["app"] == "other"


def test_no_binding_begins_while_a_change_is_on_its_way() -> None:
    stage = Stage("a", "b").permitted("a")
    change(stage, metadata={"labels": {"app": "other"}})
    stage.look()
    stage.send()
    assert [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    assert not stage.bind("a")
    stage.target_send("a")
    stage.target_look("a")
    assert stage.bind("a")


def test_a_permit_does_not_wait_for_a_change() -> None:
    stage = Stage("a", "b").ask()
    stage.reserve("a")
    change(stage, metadata={"labels": {"app": "other"}})
    granted = [one for one in stage.look() if isinstance(one, PermitGranted)]
    assert [one.cluster for one in granted] == ["a"]


def test_what_the_targets_admission_made_of_the_rest_stays() -> None:
    """A mirror of images, say: a new label restarts nothing."""
    stage = running()
    alter(stage, {"containers": [{"name": "c", "image": "mirror/i"}], "activeDeadlineSeconds": 5})
    change(stage, metadata={"labels": {"app": "other"}})
    stage.settle()
    found = delegate(stage)
    assert found["metadata"]["labels"]["app"] == "other"
    assert found["spec"]["containers"] == [{"name": "c", "image": "mirror/i"}]
    assert found["spec"]["activeDeadlineSeconds"] == 5
    change(stage, spec={"containers": [{"name": "c", "image": "j"}]})
    stage.settle()
    assert delegate(stage)["spec"]["containers"] == [{"name": "c", "image": "j"}]


def test_two_changes_of_which_the_first_was_lost() -> None:
    stage = running()
    change(stage, metadata={"labels": {"app": "web", "first": "1"}}, spec={"containers": [{"name": "c", "image": "j"}]})
    stage.look()
    stage.send()
    assert [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    change(stage, metadata={"labels": {"app": "web", "second": "2"}})
    stage.settle()
    found = delegate(stage)
    assert {"first", "old"}.isdisjoint(found["metadata"]["labels"])
    assert found["metadata"]["labels"]["second"] == "2"
    assert found["spec"]["containers"] == [{"name": "c", "image": "j"}]


# --- what cannot follow ---


def test_a_resize_is_named_and_what_else_was_changed_follows() -> None:
    stage = running()
    bigger = {"containers": [{"name": "c", "image": "j", "resources": {"requests": {"cpu": "2"}}}]}
    change(stage, spec=bigger)
    stage.settle()
    found = delegate(stage)
    assert found["spec"]["containers"] == [{"name": "c", "image": "j"}]
    status, message = condition(stage)
    assert status == "False"
    assert "its last change: Pod " in message
    assert "resized" in message
    assert stage.phase() == "Running"
    change(stage, spec={"containers": [{"name": "c", "image": "j"}]})
    stage.settle()
    assert condition(stage)[0] == "True"


def test_what_the_invitation_forbids_is_named_and_the_delegate_runs_on() -> None:
    stage = running()
    change(stage, metadata={"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}})
    stage.settle()
    status, message = condition(stage)
    assert status == "False"
    assert 'CandidateSource "home" allows pods of the level baseline' in message
    assert "container.apparmor.security.beta.kubernetes.io/c" not in delegate(stage)["metadata"].get("annotations", {})
    assert stage.phase() == "Running"


def test_who_is_not_invited_any_more_changes_nothing() -> None:
    stage = running()
    stage.uninvited.add("a")
    change(stage, spec={"containers": [{"name": "c", "image": "j"}]})
    stage.settle()
    assert delegate(stage)["spec"]["containers"] == [{"name": "c", "image": "i"}]
    assert 'cluster "home" is not invited into namespace' in condition(stage)[1]


def test_the_api_servers_no_is_said_and_tried_again() -> None:
    stage = running()
    change(stage, spec={"activeDeadlineSeconds": 60})
    stage.look()
    stage.send()
    (amended,) = [one for one in stage.target_look("a") if isinstance(one, PodAmended)]
    failed = TargetWriteFailed(
        action="PodAmended",
        target=amended.target,
        code=422,
        error="Invalid",
        message="spec.activeDeadlineSeconds: must be less than or equal to previous value",
        failures=1,
        retry_at=stage.tick(1).now,
    )
    stage.target_fold("a", stage.only("a"), failed)
    stage.tick(-1)
    assert [one for one in stage.target_look("a") if isinstance(one, AmendmentRefused)]
    stage.target_send("a")
    stage.look()
    stage.send()
    stage.look()
    assert "must be less than or equal to previous value" in condition(stage)[1]
    stage.tick(2).settle()
    assert delegate(stage)["spec"]["activeDeadlineSeconds"] == 60
    assert condition(stage)[0] == "True"


def test_a_target_that_takes_no_change_of_its_candidate_is_named() -> None:
    stage = running()
    change(stage, metadata={"labels": {"app": "other"}})
    (amended,) = [one for one in stage.look() if isinstance(one, CandidateAmended)]
    failed = CandidateWriteFailed(
        action="CandidateAmended",
        target=amended.target,
        code=403,
        error="Forbidden",
        message="candidates may not be patched",
        failures=1,
        retry_at=stage.tick(60).now,
    )
    stage.tick(-60)
    stage.fold(failed, "a")
    stage.settle()
    assert condition(stage) == ("False", "its last change: candidates may not be patched")
    stage.tick(61).settle()
    assert delegate(stage)["metadata"]["labels"]["app"] == "other"
    assert condition(stage)[0] == "True"


def test_a_forged_mark_follows_nobody() -> None:
    stage = running()
    change(stage, metadata={"labels": {"app": "web", "candidates.controlplane.dev/candidate": "x"}})
    stage.settle()
    assert not [one for one in stage.decided if isinstance(one, CandidateAmended)]
    assert stage.phase() == "Running"


def test_what_ended_is_left_as_it_is() -> None:
    stage = running(spec={"restartPolicy": "Never"})
    stage.run("a", "Succeeded")
    change(stage, metadata={"labels": {"app": "other"}})
    stage.settle()
    assert delegate(stage)["metadata"]["labels"]["app"] == "web"
    assert stage.phase() == "Succeeded"


def test_an_ephemeral_container_is_the_sources_own() -> None:
    stage = running()
    change(stage, spec={"ephemeralContainers": [{"name": "debug", "image": "d"}]})
    stage.settle()
    assert not [one for one in stage.decided if isinstance(one, CandidateAmended)]
    assert condition(stage) == ("", "")


def test_nothing_is_removed_for_a_change_and_the_candidate_keeps_its_finalizer() -> None:
    stage = running()
    change(stage, metadata={"labels": {"app": "other"}})
    for _ in range(8):
        stage.look()
        stage.send()
        assert not [one for one in stage.target_look("a") if isinstance(one, PodRemoved)]
        stage.target_send("a")
    candidate = stage.stores["a"]["candidates"][stage.only("a")]
    assert candidate["metadata"]["finalizers"] == [FINALIZER]
    assert candidate["spec"]["source"]["namespace"] == NS


def test_a_candidate_of_an_earlier_version_is_left_until_it_is_seen_with_its_template() -> None:
    """What earlier versions recorded of a candidate does not say what it is made of."""
    stage = running()
    key = stage.only("a")
    state = stage.sides["a"][key]
    assert state.made is not None
    unknown = type(state)(**{**{f: getattr(state, f) for f in state.__struct_fields__}, "made": None})
    assert unknown.pod is not None
    assert target_decide(unknown, stage.target_context("a"), stage.now).decisions == []
