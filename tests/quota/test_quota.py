"""The quota of a manager's ClusterQueue follows that of its workers, with Kueue's condition, and with our caution where
a worker is out of view."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.connectivity import events
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.aggregate import share_of, spelled, total
from controlplane.controllers.quota.events import QuotaConditionDecided, QuotaDecided, QuotaInputRefused
from controlplane.kube import kinds
from controlplane.kube.quantities import nanos
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import WriteRefusal
from tests.quota.scene import CONFIG, LOCAL, NS, QUEUE, STREAM, WORKER, Scene, group, resource
from tests.support.rows import each

AUTOMATED = ("True", "QuotaAutomated", "ClusterQueue quota is automatically managed based on MultiKueue workers.")
NOT_REQUESTED = ("False", "NotRequested", "MultiKueue manager quota automation has not been requested.")
NO_CONFIG = ("False", "UnsupportedConfiguration", "The referenced MultiKueueConfig was not found.")
FLAVORS = (
    "False",
    "UnsupportedConfiguration",
    "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor",
)


def test_the_quota_is_the_sum_of_the_workers() -> None:
    scene = Scene("a", "b")
    first, second = scene.settle()
    assert isinstance(first, QuotaDecided)
    assert (first.resources, first.before, first.flavor) == ({"cpu": "20"}, {"cpu": "1"}, "default")
    assert (first.shares, first.kept) == ({"a": {"cpu": "10"}, "b": {"cpu": "10"}}, [])
    assert isinstance(second, QuotaConditionDecided)
    assert scene.shown == AUTOMATED
    assert scene.queue["spec"]["resourceGroups"] == [group(resource("cpu", "20"))]
    assert scene.decide() == []


def test_it_follows_a_worker_whose_quota_or_local_queue_changes() -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.worker_queue("a", group(resource("cpu", "5")))
    scene.settle()
    scene.local_queue("a", gone=True)
    scene.settle()
    scene.local_queue(MANAGEMENT, "more")
    scene.local_queue("a", "more", "other")
    scene.worker_queue("a", group(resource("cpu", "500m")), name="other")
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}, {"cpu": "15"}, {"cpu": "10"}, {"cpu": "10500m"}]


def test_limits_and_order_are_what_the_sum_says() -> None:
    """Borrowing and lending limits go, as with Kueue; a covered resource that no worker has is 0."""
    scene = Scene("a", quota="10")
    scene.manager_queue(group(resource("cpu", "10", borrowingLimit="1"), resource("memory", "7Gi")))
    scene.settle()
    wanted = [{"name": "cpu", "nominalQuota": "10"}, {"name": "memory", "nominalQuota": "0"}]
    assert scene.queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"] == wanted
    assert scene.shown == AUTOMATED


def test_the_same_amount_in_another_spelling_is_no_change() -> None:
    scene = Scene("a", quota="10000m")
    scene.settle()
    assert scene.quotas() == []
    assert scene.shown == AUTOMATED


@pytest.mark.parametrize("management", ["", "Manual"])
def test_what_is_not_asked_for_is_not_done(management: str) -> None:
    scene = Scene("a", management=management)
    scene.settle()
    assert (scene.quotas(), scene.shown) == ([], NOT_REQUESTED)


def test_a_config_that_is_gone() -> None:
    scene = Scene("a")
    scene.config(gone=True)
    scene.settle()
    assert (scene.quotas(), scene.shown) == ([], NO_CONFIG)


def test_more_than_one_flavor() -> None:
    scene = Scene("a")
    two = group(resource("cpu", "1"))
    two["flavors"].append({"name": "spot", "resources": [resource("cpu", "1")]})
    for groups in ((two,), (group(resource("cpu", "1")), group(resource("gpu", "1"))), ()):
        scene.manager_queue(*groups)
        scene.settle()
        assert (scene.quotas(), scene.shown) == ([], FLAVORS)


def test_a_resource_that_is_not_covered() -> None:
    scene = Scene("a")
    scene.worker_queue("a", group(resource("memory", "1Gi"), resource("cpu", "1")), group(resource("gpu", "0")))
    scene.settle()
    missing = "manager-side coveredResources is missing resources configured on workers: [gpu memory]"
    assert (scene.quotas(), scene.shown) == ([], ("False", "UnsupportedConfiguration", missing))


def test_the_condition_goes_with_the_check() -> None:
    scene = Scene("a")
    scene.settle()
    scene.manager_queue(group(resource("cpu", "10")), checks=("other",))
    (decision,) = scene.settle()
    assert isinstance(decision, QuotaConditionDecided)
    assert (decision.status, scene.shown) == ("", None)


def test_other_conditions_stay() -> None:
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Ready",
        "message": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    scene = Scene("a")
    scene.manager_queue(group(resource("cpu", "10")), conditions=[active])
    scene.settle()
    assert scene.queue["status"]["conditions"][0] == active
    assert len(scene.queue["status"]["conditions"]) == 2


# --- a worker that is out of view ----------------------------------------------------------------------------------


def test_the_last_share_of_a_lost_worker_counts_until_it_is_given_up() -> None:
    """Kueue lets it vanish at once, and the quota drops with every short loss."""
    scene = Scene("a", "b")
    scene.settle()
    scene.lose("a")
    assert scene.decide() == []
    assert scene.wake == scene.now + timedelta(minutes=15)
    scene.now += timedelta(minutes=15)
    (decision,) = scene.settle()
    assert isinstance(decision, QuotaDecided)
    assert (decision.resources, decision.shares) == ({"cpu": "10"}, {"b": {"cpu": "10"}})


def test_a_change_meanwhile_is_decided_with_the_last_share() -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.lose("a")
    scene.worker_queue("b", group(resource("cpu", "4")))
    (decision,) = scene.settle()
    assert isinstance(decision, QuotaDecided)
    assert (decision.resources, decision.kept) == ({"cpu": "14"}, ["a"])


def test_who_is_back_counts_as_it_is_now() -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.lose("a")
    scene.connect("a")  # and nothing of it is listed yet
    assert scene.decide() == []
    scene.worker_queue("a", group(resource("cpu", "3")))
    assert scene.decide() == []
    for kind in WORKER:
        scene.say("a", events.KindSynced(kind=kind.name, count=1, resource_version="1"))
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}, {"cpu": "13"}]


@pytest.mark.parametrize("how", ["removed", "forgotten", "another name"])
def test_who_is_given_up_counts_no_more(how: str) -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.lose("a")
    said: dict[str, events.Event] = {
        "removed": events.ClusterDisconnected(reason="Removed"),
        "forgotten": events.ClusterForgotten(by="jane"),
        "another name": events.ClusterStandby(behind="b", incarnation="i-b", message="one cluster"),
    }
    scene.say("a", said[how])
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}, {"cpu": "10"}]


def test_a_cluster_counts_once_by_the_name_under_which_it_is_used() -> None:
    scene = Scene("a", "b")
    scene.defined("again")
    scene.say("again", events.ClusterStandby(behind="a", incarnation="i-a", message="one cluster"))
    scene.config("again", "a", "b")
    scene.settle()
    scene.config("again", "b")
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}]


def test_a_name_that_takes_over_is_waited_for() -> None:
    scene = Scene("a", "b")
    scene.defined("again")
    scene.say("again", events.ClusterStandby(behind="a", incarnation="i-a", message="one cluster"))
    scene.config("again", "b")
    scene.settle()
    scene.say("a", events.ClusterDisconnected(reason="Removed"))
    assert scene.decide() == []
    scene.connect("again")
    assert scene.decide() == []
    scene.local_queue("again")
    scene.worker_queue("again", group(resource("cpu", "10")))
    for kind in WORKER:
        scene.say("again", events.KindSynced(kind=kind.name, count=1, resource_version="1"))
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}]


def test_in_a_mass_outage_nobody_is_given_up() -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.lose("a")
    scene.lose("b")
    scene.record(NewEvent(stream="fleet", event=events.MassOutageBegan(away=["a", "b"], of=2)))
    scene.now += timedelta(hours=1)
    assert scene.decide() == []
    assert scene.wake is None
    scene.record(NewEvent(stream="fleet", event=events.MassOutageAccepted(by="jane")))
    scene.settle()
    assert scene.quotas() == [{"cpu": "20"}, {"cpu": "0"}]


def test_a_restart_changes_nothing() -> None:
    scene = Scene("a", "b")
    scene.settle()
    scene.record(NewEvent(stream="service", event=events.ServiceStarted(epoch=2, holder="b", version="1")))
    assert scene.decide() == []
    scene.connect(MANAGEMENT, *(kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.ADMISSION_CHECKS))
    assert scene.decide() == []  # not all of the management cluster is in view
    scene.connect(MANAGEMENT, kinds.MULTIKUEUE_CONFIGS, kinds.MULTIKUEUE_CLUSTERS, kinds.CLUSTER_QUEUES)
    assert scene.decide() == []


def test_nothing_is_decided_before_every_worker_was_tried() -> None:
    """The sum of those that came first would be set, and raised again and again."""
    scene = Scene("a")
    scene.defined("b")
    scene.config("a", "b")
    assert scene.decide() == []
    scene.say("b", events.ClusterConnectFailed(reason="BadKubeConfig", message="no", attempt=0))
    scene.settle()
    assert scene.quotas() == [{"cpu": "10"}]
    assert scene.queue["spec"]["resourceGroups"] == [group(resource("cpu", "10"))]


# --- writes ----------------------------------------------------------------------------------------------------------


def test_a_conflict_is_decided_anew_on_the_version_that_comes() -> None:
    scene = Scene("a")
    scene.decide()
    scene.refuse(409, "Conflict")
    assert scene.decide() == []
    scene.manager_queue(group(resource("cpu", "1")))
    scene.settle()
    assert scene.quotas() == [{"cpu": "10"}, {"cpu": "10"}]
    assert scene.shown == AUTOMATED


def test_a_refusal_rests_though_the_queue_changes() -> None:
    scene = Scene("a")
    scene.decide()
    scene.refuse(403, "Forbidden")
    scene.manager_queue(group(resource("cpu", "1")))
    assert scene.decide() == []
    assert scene.wake == scene.now + timedelta(seconds=1)
    scene.now += timedelta(seconds=1)
    assert scene.settle()


def test_what_cannot_be_read_leaves_what_was_known() -> None:
    scene = Scene("a")
    scene.settle()
    scene.worker_queue("a", group({"name": "cpu", "nominalQuota": "lots"}))
    assert isinstance(scene.log[-1].event, QuotaInputRefused)
    assert scene.log[-1].event.field == "spec.resourceGroups[].flavors[].resources[].nominalQuota"
    assert scene.decide() == []
    scene.config("a", management="Sometimes")
    assert isinstance(scene.log[-1].event, QuotaInputRefused)
    assert scene.log[-1].event.field == "spec.quotaManagement"
    assert scene.decide() == []


def test_what_says_nothing_new_is_not_recorded() -> None:
    scene = Scene("a")
    scene.settle()
    before = len(scene.log)
    scene.worker_queue("a", group(resource("cpu", "10")))
    scene.local_queue("a")
    scene.check(controller="somebody.example/else")
    assert len(scene.log) == before


# --- the sum ---------------------------------------------------------------------------------------------------------


@each(
    ("local_queues", "queues", "share"),
    [
        ({}, {QUEUE: {"cpu": ["1"]}}, {}),
        ({(NS, LOCAL): QUEUE}, {}, {}),
        ({(NS, LOCAL): QUEUE}, {QUEUE: {"cpu": ["1", "500m"], "memory": ["0"]}}, {"cpu": "1500m", "memory": "0"}),
        ({(NS, LOCAL): QUEUE, (NS, "other"): "x"}, {QUEUE: {"cpu": ["1"]}, "x": {"cpu": ["9"]}}, {"cpu": "1"}),
        ({(NS, LOCAL): QUEUE, ("else", LOCAL): "x"}, {QUEUE: {"cpu": ["1"]}, "x": {"cpu": ["9"]}}, {"cpu": "1"}),
        ({(NS, LOCAL): QUEUE, (NS, "two"): QUEUE}, {QUEUE: {"cpu": ["1"]}}, {"cpu": "1"}),
    ],
)
def test_what_a_worker_gives(
    local_queues: dict[tuple[str, str], str], queues: dict[str, dict[str, list[str]]], share: dict[str, str]
) -> None:
    found = share_of({(NS, LOCAL), (NS, "two")}, local_queues, queues)
    assert found == {name: nanos(amount) for name, amount in share.items()}


def test_amounts_are_summed_exactly_and_spelled_as_kueue_spells_them() -> None:
    found = total([{"memory": nanos("1Gi"), "cpu": nanos("100m")}, {"memory": nanos("512Mi"), "cpu": nanos("0.2")}])
    assert {name: spelled(name, amount) for name, amount in found.items()} == {"memory": "1536Mi", "cpu": "300m"}


def test_the_config_is_the_one_of_the_check() -> None:
    scene = Scene("a")
    scene.settle()
    assert {one.stream for one in scene.log if one.stream.startswith("quota/config")} == {f"quota/config/{CONFIG}"}


def test_quota_beyond_64_bits_is_the_largest_that_a_quantity_can_be() -> None:
    """Who reads a quantity, as Kueue's webhook does, makes no more of it."""
    scene = Scene("w1", "w2")
    for name in ("w1", "w2"):
        scene.worker_queue(name, group(resource("cpu", "8Ei")))
    scene.settle()
    largest = "9223372036854775807"
    (found,) = scene.queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert found["nominalQuota"] == largest
    for read in (largest, "8Ei", "16Ei"):
        scene.manager_queue(group(resource("cpu", read)))
        assert scene.decide() == []


def test_nothing_is_kept_of_a_queue_whose_write_ended_after_it_was_gone() -> None:
    scene = Scene("w1", quota="3")
    (write, *_) = scene.decide()
    assert isinstance(write, QuotaDecided)
    shown = {"metadata": scene.queue["metadata"], "spec": scene.queue["spec"]}
    (open_,) = scene.controller.open_writes(STREAM)
    refused = scene.controller.failed(open_, WriteRefusal(403, "Forbidden", "no"), scene.now)
    scene.show(MANAGEMENT, kinds.CLUSTER_QUEUES, shown, gone=True)
    scene.record(refused)
    assert scene.controller.queues == {}


def test_what_was_refused_of_a_queue_is_written_to_another_of_its_name_at_once() -> None:
    scene = Scene("w1", quota="3")
    scene.decide()
    (open_,) = scene.controller.open_writes(STREAM)
    scene.record(scene.controller.failed(open_, WriteRefusal(403, "Forbidden", "no"), scene.now))
    assert scene.decide() == []
    scene.show(
        MANAGEMENT,
        kinds.CLUSTER_QUEUES,
        {"metadata": {**scene.queue["metadata"], "uid": "another"}, "spec": scene.queue["spec"]},
    )
    assert scene.decide() != []
