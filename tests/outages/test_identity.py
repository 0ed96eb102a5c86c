"""A kubeconfig that leads to another cluster than before: what ran on the one before is unknown, and not gone."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

import pytest
import yaml

from controlplane.app import operate
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.kube.kinds import SECRETS
from controlplane.log.connect import Database
from controlplane.simulation.world import KUEUE_NAMESPACE, secret_name
from tests.outages.stage import RETRY, ROLE, Stage, running_on_a, settings

Make = Callable[..., Awaitable[Stage]]
NEVER_TWICE = "never-twice"


def mislead(on: Stage, cluster: str, to: str) -> None:
    """Put another worker's kubeconfig into a worker's Secret."""
    config = yaml.safe_dump(on.worker(to).server.kubeconfig()).encode()
    data = {"kubeconfig": base64.b64encode(config).decode()}
    on.manager.store.patch(SECRETS, KUEUE_NAMESPACE, secret_name(cluster), {"data": data})


async def wait_for_reason(on: Stage, cluster: str, reason: str) -> str:
    """Wait until a MultiKueueCluster is refused for a reason, and return its message."""
    await on.until(lambda: on.lost(cluster) and on.why(cluster)[0] == reason, f"{cluster} refused: {reason}")
    return on.why(cluster)[1]


@pytest.mark.parametrize("watched", ["watched", "restarted"])
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
