"""Virtual Nodes, as pure tables: tolerations, names, and when a pod is bound or ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.controllers.candidates.nodes.events import VirtualNodeRemoved
from controlplane.controllers.candidates.objects import HINT_TOLERATIONS, is_virtual, template, virtual_node
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source.observations import DelegateMissing, DelegateStatus
from controlplane.controllers.candidates.source.observe import source_pod
from controlplane.controllers.candidates.tolerations import restored, unlimited
from controlplane.kube.kinds import Json
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates, VirtualNodeSettings
from controlplane.settings.model import contradictions
from tests.candidates.cause_nodes import HINTS, hinted, noded, on_node
from tests.candidates.cause_stories import R
from tests.candidates.model.world import START
from tests.candidates.stage import pod
from tests.candidates.told import Told
from tests.support.rows import each

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def tolerates(key: str, **more: Any) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **more}


BOTH = [tolerates(NOT_READY), tolerates(UNREACHABLE)]


@each(
    ("given", "wanted"),
    [
        ([], BOTH),
        (BOTH, BOTH),
        ([tolerates(NOT_READY, tolerationSeconds=300), tolerates(UNREACHABLE, tolerationSeconds=300)], BOTH),
        ([tolerates(UNREACHABLE, tolerationSeconds=0)], [tolerates(UNREACHABLE), tolerates(NOT_READY)]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
        (
            [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            [{"operator": "Exists", "effect": "NoExecute"}],
        ),
        (
            [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, *BOTH],
        ),
        (
            [{"key": NOT_READY, "operator": "Equal", "value": "x", "effect": "NoExecute"}],
            [{"key": NOT_READY, "operator": "Equal", "value": "x", "effect": "NoExecute"}, *BOTH],
        ),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [{"operator": "Exists", "effect": "NoSchedule"}, *BOTH]),
    ],
)
def test_nothing_limits_how_long_a_pod_stays_on_a_node_that_is_not_ready(given: list[Json], wanted: list[Json]) -> None:
    assert unlimited(given) == wanted
    assert unlimited(wanted) == wanted
    assert restored(wanted, json.dumps(given)) == given
    more = {"key": "more", "operator": "Exists"}
    assert restored([*wanted, more], json.dumps(given)) == [*given, more]


@pytest.mark.parametrize("noted", ["", "{", "7", '["x"]'])
def test_a_note_that_nobody_can_read_changes_nothing(noted: str) -> None:
    assert restored(BOTH, noted) == BOTH


def test_a_candidate_is_made_of_the_tolerations_that_the_pod_came_with() -> None:
    own = [tolerates(NOT_READY, tolerationSeconds=300)]
    before = template(pod(spec={"tolerations": own}))
    noted = {HINT_TOLERATIONS: json.dumps(own)}
    assert template(pod(spec={"tolerations": unlimited(own)}, metadata={"annotations": noted})) == before
    bare = template(pod())
    none = {HINT_TOLERATIONS: "[]"}
    assert template(pod(spec={"tolerations": unlimited([])}, metadata={"annotations": none})) == bare


@pytest.mark.parametrize("target", ["east", "a.b-c", "x" * 63, "y" * 253, "z." * 100 + "z"])
def test_the_name_of_a_node_is_a_labels_value(target: str) -> None:
    name = virtual_node(target)
    assert len(name) <= 63
    assert is_virtual(name)
    assert name[-1].isalnum()
    assert virtual_node(f"{target}2") != name


def test_a_pod_on_a_virtual_node_has_no_problem_and_one_on_another_node_has() -> None:
    ours, theirs = (source_pod(pod(spec={"nodeName": name}))[1] for name in ("candidates-east", "n1"))
    assert (ours.problem, ours.node) == ("", "candidates-east")  # type: ignore[attr-defined]
    assert (theirs.problem, theirs.node) == ("BoundElsewhere", "")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("metadata", "stopping"),
    [
        ({}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}, False),
    ],
)
def test_who_waits_for_a_kubelet(metadata: Json, stopping: bool) -> None:
    assert source_pod(pod(spec={"nodeName": "candidates-east"}, metadata=metadata))[1].stopping is stopping  # type: ignore[attr-defined]
    assert source_pod(pod(metadata=metadata))[1].stopping is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ready", "containers", "taken"),
    [
        ({"status": "False"}, {"status": "True"}, True),
        ({"status": "False", "reason": "ReadinessGatesNotReady"}, {"status": "True"}, False),
        ({"status": "False"}, {"status": "False"}, False),
        ({"status": "True"}, {"status": "True"}, False),
    ],
)
def test_whose_word_it_is_that_a_pod_is_not_ready(ready: Json, containers: Json, taken: bool) -> None:
    said = [{"type": "Ready", **ready}, {"type": "ContainersReady", **containers}]
    seen = source_pod(pod(spec={"nodeName": "candidates-east"}, status={"phase": "Running", "conditions": said}))[1]
    assert seen.unready is taken  # type: ignore[attr-defined]


# --- a pod -----------------------------------------------------------------------------------------------------------


def said(told: Told, event: type[Any]) -> list[Any]:
    return [row.event for row in told.settle().rows if isinstance(row.event, event)]


def test_the_status_waits_for_the_binding_unless_that_is_refused() -> None:
    told = hinted().settle()
    assert [one.node for one in said(told, events.SourceBound)] == ["candidates-a"]
    before = said(told, events.StatusShown)
    told.put(
        "sourcepod/team/web",
        events.CandidateWriteFailed(
            target="@management/Binding",
            action="SourceBound",
            code=403,
            error="Forbidden",
            message="pods/binding is forbidden",
            failures=1,
            retry_at=START,
        ),
    )
    assert len(said(told, events.StatusShown)) == len(before) + 1


def test_nothing_is_bound_without_the_option_a_node_or_a_kubelets_word() -> None:
    off = noded(Told("a")).bound("a").pod(hints=HINTS, tolerates=True).status("a")
    no_node = Told("a", virtual_nodes=True).bound("a").pod(hints=HINTS, tolerates=True).status("a")
    pending = noded(Told("a", virtual_nodes=True)).bound("a").pod(hints=HINTS, tolerates=True).status("a", 1, "Pending")
    rejected = noded(Told("a", virtual_nodes=True)).bound("a").pod(hints=HINTS, tolerates=True).rejected("a")
    assert [said(told, events.SourceBound) for told in (off, no_node, pending, rejected)] == [[], [], [], []]


def test_a_member_of_a_gang_is_bound_once_the_gang_is_formed() -> None:
    told = noded(Told("a", virtual_nodes=True)).gang("m-0", "m-1").reserves("a", "m-0", "m-1").settle()
    told.binds("a", "m-0").settle().pod("m-0", hints=HINTS, tolerates=True)
    more = {"reservation": 1, "permit": 1, "node": "n", "pod": "p", "bound_by": 1, "pod_phase": "Running"}
    told.says(DelegateStatus, "a", "m-0", sequence=1, pod_status="s", **more)
    assert not said(told, events.SourceBound)
    told.binds("a", "m-1").settle().pod("m-0")
    assert len(said(told, events.SourceBound)) == 1


def test_a_pod_that_may_be_bound_by_what_is_on_its_way_is_offered_to_nobody_else() -> None:
    told = hinted().settle().says(DelegateMissing, "a").settle().pod()
    assert len(said(told, events.Elected)) == 1
    assert [(one.phase, one.failed) for one in said(told, events.StatusShown)][-1] == ("Failed", True)


def test_a_bound_pod_that_the_log_does_not_know_is_offered_to_its_own_target_alone() -> None:
    told = noded(Told("a", "b", virtual_nodes=True)).pod(node="candidates-a")
    assert [one.targets for one in said(told, events.Elected)] == [["a"]]


def test_a_pod_on_a_node_that_only_has_such_a_name_is_left_alone() -> None:
    """Somebody's own Node may be called as a virtual one would be: its kubelet runs the pod, and ends it."""
    told = Told("a", virtual_nodes=True).pod(node="candidates-a")
    assert not said(told, events.Elected)
    assert [one.reason for one in said(told, events.ElectionRefused)] == ["BoundElsewhere"]
    told.pod(deleting=True, stopping=True).settle()
    told.pod(deleting=True, stopping=True, phase="Succeeded").settle()
    assert not said(told, events.SourceRemoved)
    assert {one.phase for one in said(told, events.StatusShown)} == {"Pending"}, "as with any other node"


def test_a_pod_that_somebody_binds_elsewhere_while_it_is_placed_is_not_ended() -> None:
    told = Told("a", virtual_nodes=True).pod().settle().reserves("a").settle()
    told.pod(node="candidates-a", deleting=True, stopping=True).settle()
    told.candidate_gone("a")
    assert not said(told, events.SourceRemoved)
    assert "Failed" not in [one.phase for one in said(told, events.StatusShown)]


def test_a_bound_pod_that_is_deleted_shows_how_its_delegate_has_ended() -> None:
    told = on_node().pod(deleting=True, stopping=True).settle()
    assert not said(told, events.SourceRemoved)
    told.status("a", 2, "Succeeded").settle()
    assert [(one.phase, one.reason) for one in said(told, events.StatusShown)][-1] == ("Succeeded", "StatusFinal")
    told.pod(phase="Succeeded").settle()
    assert not said(told, events.SourceRemoved)
    told.candidate_gone("a")
    assert [one.node for one in said(told, events.SourceRemoved)] == ["candidates-a"]


def test_a_pod_whose_node_is_on_its_way_out_is_not_bound_to_it() -> None:
    told = noded(Told("a", virtual_nodes=True)).bound("a").pod(hints=HINTS, tolerates=True)
    gone = VirtualNodeRemoved(name="candidates-a", uid="n-a", reason=R.TARGET_NOT_NAMED)
    told.put("virtualnode/a", gone).status("a")
    assert not said(told, events.SourceBound)
    refusal = {"target": "@management/Node", "action": "VirtualNodeRemoved", "code": 403, "error": "Forbidden"}
    told.put("virtualnode/a", events.CandidateWriteFailed(**refusal, message="no", failures=1, retry_at=START)).pod()
    assert len(said(told, events.SourceBound)) == 1


def test_a_pod_is_not_bound_by_what_a_target_said_before_it_went_out_of_view() -> None:
    told = Told("a", virtual_nodes=True).bound("a").pod(hints=HINTS, tolerates=True).status("a").lose("a")
    assert not said(noded(told), events.SourceBound)
    told.connect("a").status("a", 2).pod()
    assert len(said(told, events.SourceBound)) == 1


def test_a_bound_pod_is_counted_for_its_node() -> None:
    told = on_node()
    assert told.placing.bound_to("candidates-a", "a") == 1
    assert told.placing.bound_to("candidates-b", "b") == 0
    assert hinted().settle().placing.bound_to("candidates-a", "a") == 1


@each(
    ("given", "key"),
    [
        ({"certificate": "c.pem", "node_address": "10.0.0.1"}, "candidates.virtualNodes.certificate"),
        ({"enabled": "yes", "certificate": "c.pem"}, "candidates.virtualNodes.nodeAddress"),
        ({"enabled": "yes", "key": "k.pem"}, "candidates.virtualNodes.key"),
        (
            {"enabled": "yes", "certificate": "c.pem", "node_address": "10.0.0.1", "client_authority": ""},
            "candidates.virtualNodes.clientAuthority",
        ),
        ({"enabled": "yes"}, ""),
        ({"enabled": "yes", "certificate": "c.pem", "node_address": "10.0.0.1"}, ""),
    ],
)
def test_settings_that_do_not_go_together(given: Json, key: str) -> None:
    chosen = Settings(candidates=Candidates(virtual_nodes=VirtualNodeSettings(**given)))
    found = [one for one, _ in contradictions(chosen) if "virtualNodes" in one]
    assert found == ([key] if key else [])
