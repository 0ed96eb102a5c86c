"""A kubeconfig that leads to another cluster than before: what ran on the one before is unknown, and not gone."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

import pytest
import yaml

from controlplane.app import operate
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.kube.kinds import EVENTS, MULTIKUEUE_CLUSTERS, SECRETS
from controlplane.log.connect import Database
from controlplane.simulation.world import KUEUE_NAMESPACE, secret_name
from tests.outages.stage import RETRY, ROLE, Stage, condition, running_on_a, settings
from tests.support.deep import deep_but

Make = Callable[..., Awaitable[Stage]]
NEVER_TWICE = "never-twice"


def mislead(on: Stage, cluster: str, to: str) -> None:
    """Put another worker's kubeconfig into a worker's Secret."""
    config = yaml.safe_dump(on.worker(to).server.kubeconfig()).encode()
    data = {"kubeconfig": base64.b64encode(config).decode()}
    on.manager.store.patch(SECRETS, KUEUE_NAMESPACE, secret_name(cluster), {"data": data})


def name_again(on: Stage, cluster: str, name: str) -> None:
    """Define one more MultiKueueCluster with the kubeconfig of a worker."""
    config = yaml.safe_dump(on.worker(cluster).server.kubeconfig()).encode()
    secret = {
        "metadata": {"namespace": KUEUE_NAMESPACE, "name": secret_name(name)},
        "data": {"kubeconfig": base64.b64encode(config).decode()},
    }
    on.manager.store.create(SECRETS, secret)
    source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
    on.manager.store.create(MULTIKUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})


async def wait_for_reason(on: Stage, cluster: str, reason: str) -> str:
    """Wait until a MultiKueueCluster is refused for a reason, and return its message."""
    await on.until(lambda: on.lost(cluster) and on.why(cluster)[0] == reason, f"{cluster} refused: {reason}")
    return on.why(cluster)[1]


@pytest.mark.parametrize("watched", deep_but(("restarted",), ["watched", "restarted"]))
async def test_a_kubeconfig_of_another_worker_runs_nothing_twice(stage: Make, watched: str) -> None:
    """The copy was taken for gone within a second, and the job ran on both."""
    on = await stage("a", "b", "c", roomy=("a",), settings=settings(lost=0.2, execution_policy=NEVER_TWICE))
    on.submit()
    await on.running("a")
    uid = on.uid("a")
    on.make_room("b")
    if watched == "restarted":
        await on.kill()
    mislead(on, "a", "c")
    if watched == "restarted":
        await on.up()
    message = await wait_for_reason(on, "a", "ClusterIdentityInUse")
    assert '"a"' in message
    assert '"c"' in message
    await on.quiet(1.0)
    assert on.said("CloneGone", "a") == on.said("RemoteJobGone", "a") == []
    assert RETRY not in on.events()
    assert (on.running_on(), on.uid("a"), on.jobs(), on.active("c")) == ("a", uid, {"a"}, True)
    on.give_kubeconfig("a")
    await on.until(lambda: on.active("a"), "back")
    assert (on.running_on(), on.uid("a")) == ("a", uid)
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


async def test_a_rebuilt_cluster_is_unknown_until_an_operator_gives_the_old_one_up(stage: Make) -> None:
    wanted = settings(lost=0.2, execution_policy=NEVER_TWICE)
    on = await running_on_a(stage, settings=wanted)
    on.make_room("b")
    await on.rebuild("a")
    on.make_room("a", "0")  # once it is in use, it could get the job as well as b
    message = await wait_for_reason(on, "a", "ClusterIdentityChanged")
    assert "controlplane clusters forget a" in message
    await on.quiet(1.0)
    assert on.said("CloneGone", "a") == on.said("RemoteJobGone", "a") == []
    assert on.witness.starts["train"] == ["a"]
    await operate.forget(Database(on.url, ROLE), "main", policy_of(wanted), "a", "me")
    await on.until(lambda: on.active("a"), "the new one in use")
    await on.until(lambda: on.witness.starts["train"] == ["a", "b"], "started anew")
    on.end("b")
    await on.done()


@pytest.mark.deep
async def test_a_rebuilt_cluster_is_taken_once_every_grace_is_over(stage: Make) -> None:
    """Under at-least-once nobody has to say anything."""
    on = await running_on_a(stage, settings=settings(lost=3))
    on.make_room("b")
    await on.rebuild("a")
    await wait_for_reason(on, "a", "ClusterIdentityChanged")
    await on.running("b")
    await on.until(lambda: on.active("a"), "the new one in use")
    (lost, *_) = on.said("ClusterLost", "a")
    assert lost["reason"] == "Unreachable"
    on.end("b")
    await on.done()
    assert on.witness.starts["train"] == ["a", "b"]


async def test_a_rebuilt_cluster_on_which_nothing_can_run_is_taken_at_once(stage: Make) -> None:
    on = await stage("a", "b", roomy=("b",), settings=settings(lost=3600, execution_policy=NEVER_TWICE))
    on.submit()
    await on.running("b")
    before = on.said("ClusterConnected", "a")[-1]["incarnation"]
    await on.rebuild("a")
    await on.until(lambda: on.active("a"), "the new one in use")
    assert on.said("ClusterConnected", "a")[-1]["incarnation"] != before
    assert on.said("ClusterConnectFailed", "a", reason="ClusterIdentityChanged") == []
    on.end("b")
    await on.done()


async def test_two_names_of_one_cluster_are_one_too_many(stage: Make) -> None:
    """The second name is offered nothing; it is used once the kubeconfig is its own."""
    on = await stage("a", "b", "c", roomy=("a",))
    mislead(on, "c", "a")
    message = await wait_for_reason(on, "c", "ClusterIdentityInUse")
    assert '"a"' in message
    assert '"c"' in message
    assert on.active("a")
    on.submit()
    await on.running("a")
    assert on.said("CloneDecided", "c") == []
    on.give_kubeconfig("c")
    await on.until(lambda: on.active("c"), "its own again")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


@pytest.mark.parametrize("watched", deep_but(("restarted",), ["watched", "restarted"]))
async def test_a_further_name_of_a_cluster_is_active_and_offered_nothing(stage: Make, watched: str) -> None:
    """Kueue dispatches to both names, and removes what runs as the copy of the one that lost."""
    on = await stage("a", "b", roomy=("a",), settings=settings(lost=0.2))
    name_again(on, "a", "again")
    on.route("again", "a", "b")
    await on.until(lambda: on.said("ClusterStandby", "again"), "standing by")
    await on.until(lambda: condition(on.multikueue_cluster("again"), "Active"), "active")
    if watched == "restarted":
        await on.kill()
        await on.up()
    on.submit()
    await on.running("a")
    await on.quiet(1.0)
    assert on.said("CloneDecided", "again") == on.said("ClusterConnected", "again") == []
    assert on.why("again") == ("Active", "Connected")
    assert condition(on.multikueue_cluster("a"), "Active")
    (said, *_) = on.said("ClusterStandby", "again")
    assert said["behind"] == "a"
    assert 'is used as "a"' in said["message"]
    told = [one for one in on.manager.store.list(EVENTS)[0] if one["reason"] == "ClusterIdentityShared"]
    assert [one["regarding"]["name"] for one in told] == ["again"]
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


async def test_a_further_name_takes_over_when_the_first_is_gone(stage: Make) -> None:
    on = await stage("a", "b", roomy=("a",))
    name_again(on, "a", "again")
    on.route("a", "again", "b")
    await on.until(lambda: on.said("ClusterStandby", "again"), "standing by")
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.until(lambda: on.said("ClusterConnected", "again"), "in use")
    on.submit()
    await on.until(lambda: on.witness.starts.get("train") == ["a"], "running")
    await on.until(lambda: (on.workload() or {}).get("status", {}).get("clusterName") == "again", "placed")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


@pytest.mark.deep
async def test_a_further_name_takes_over_when_no_configuration_lists_the_first(stage: Make) -> None:
    """Not while a Workload has to do with the first name; and back when it is the other way round."""
    on = await stage("a", "b", roomy=("a",))
    name_again(on, "a", "again")
    await on.until(lambda: on.said("ClusterStandby", "again"), "standing by")
    on.submit()
    await on.running("a")
    on.route("again", "b")
    await on.until(
        lambda: on.said("ClusterConnected", "again"),
        "in use",
    )
    await on.until(lambda: on.said("ClusterStandby", "a"), "standing by in its turn")
    assert condition(on.multikueue_cluster("a"), "Active")
    on.submit("second")
    await on.until(lambda: on.witness.starts.get("second") == ["a"], "running under the other name")
    on.end("a", name="second")
    await on.until(lambda: on.finished(name="second"), "second over")
    on.route("a", "b")
    await on.until(lambda: len(on.said("ClusterConnected", "a")) == 2, "in use again")


@pytest.mark.deep
async def test_a_further_name_waits_for_what_runs_under_one_that_was_deleted(stage: Make) -> None:
    """Under another name the copy would be one too many, and be removed while it runs."""
    wanted = settings(lost=0.2, execution_policy=NEVER_TWICE)
    on = await running_on_a(stage, settings=wanted)
    name_again(on, "a", "again")
    await on.until(lambda: on.said("ClusterStandby", "again"), "standing by")
    uid = on.uid("a")
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.until(lambda: on.said("ClusterDisconnected", "a"), "let go")
    await on.kill()
    await on.up()
    await on.quiet(1.0)
    assert on.said("ClusterConnected", "again") == []
    assert (on.uid("a"), on.witness.starts["train"]) == (uid, ["a"])
    await operate.forget(Database(on.url, ROLE), "main", policy_of(wanted), "a", "me")
    await on.until(lambda: on.said("ClusterConnected", "again"), "in use")


@pytest.mark.deep
async def test_nor_is_a_name_of_another_cluster_used_for_it(stage: Make) -> None:
    """Its kubeconfig leads to the cluster whose name is deleted while a job runs there."""
    wanted = settings(lost=0.2, execution_policy=NEVER_TWICE)
    on = await running_on_a(stage, settings=wanted)
    uid, connected = on.uid("a"), len(on.said("ClusterConnected", "b"))
    mislead(on, "b", "a")
    await wait_for_reason(on, "b", "ClusterIdentityInUse")
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.until(lambda: on.said("ClusterDisconnected", "a"), "let go")
    await on.kill()
    await on.up(ready=False)
    tried = len(on.said("ClusterConnectFailed", "b"))
    await on.until(lambda: len(on.said("ClusterConnectFailed", "b")) > tried, "b refused again")
    await on.quiet(1.0)
    assert len(on.said("ClusterConnected", "b")) == connected
    assert (on.uid("a"), on.witness.starts["train"]) == (uid, ["a"])
    await operate.forget(Database(on.url, ROLE), "main", policy_of(wanted), "a", "me")
    await on.until(lambda: len(on.said("ClusterConnected", "b")) > connected, "in use")
