"""Watches that come and go on a connection: each into its own sink, after the announcement, over losses, and without
leftovers.
"""

from __future__ import annotations

from controlplane.clusters.connection_reports import Connected, Lost
from controlplane.clusters.protocol import Off, Synced
from controlplane.kube.kinds import SECRETS
from controlplane.kube.watches import WatchSpec
from tests.clusters.fleet import fleet, of_secret
from tests.clusters.miniapi import END, MiniApi, Recorder, obj, status, until

IN_A = WatchSpec(SECRETS, "mark=ours", "a", "metadata.name=x")


async def test_what_is_wanted_is_followed_in_its_namespace_and_selection_into_its_own_sink(api: MiniApi) -> None:
    api.objects["secrets"] = [obj("x", 1)]
    more = Recorder()
    async with fleet() as f:
        f.connections.want({"w": {IN_A: more.sink}})
        of_secret(f, api)
        await until(lambda: any(isinstance(delta, Synced) for delta in more.deltas))
        assert more.seen() == ["listed x@1", "synced"]
        assert not any("x@1" in said for said in f.log.seen())
        query = next(seen for seen in api.lists(SECRETS) if seen.path.endswith("/namespaces/a/secrets")).query
        assert (query["labelSelector"], query["fieldSelector"]) == ("mark=ours", "metadata.name=x")
        assert f.log.of(Connected)[0].kinds_off == ()


async def test_it_begins_only_after_the_announcement(api: MiniApi) -> None:
    order: list[str] = []

    async def fact(cluster: str, found: object) -> None:
        order.append(type(found).__name__)

    async def sink(cluster: str, deltas: object) -> None:
        order.append("extra")

    async with fleet(facts=fact) as f:
        f.connections.want({"w": {IN_A: sink}})
        of_secret(f, api)
        await until(lambda: "extra" in order)
    assert order.index("Connected") < order.index("extra")


async def test_it_is_listed_again_after_a_loss_and_let_go_when_it_is_not_wanted(api: MiniApi) -> None:
    api.objects["secrets"] = [obj("x", 1)]
    more = Recorder()
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        f.connections.want({"w": {IN_A: more.sink}})
        await until(lambda: len(api.watches(SECRETS)) == 1)
        api.hang = True
        await until(lambda: f.log.of(Lost))
        api.hang, api.version = False, 20
        await f.connected(2)
        await until(lambda: len([delta for delta in more.deltas if isinstance(delta, Synced)]) == 2)
        await until(
            lambda: api.open_watches == 3
        )  # the watches of before the loss are closed, and all of after are open
        f.connections.want({})
        await until(lambda: api.open_watches == 2)


async def test_it_is_listed_again_after_a_loss_where_nothing_else_is_watched(api: MiniApi) -> None:
    """Candidates alone, namespace by namespace: a cluster that came back and was not listed would stay out of view for
    ever.
    """
    api.objects["secrets"] = [obj("x", 1)]
    more = Recorder()
    async with fleet(specs=()) as f:
        f.connections.want({"w": {IN_A: more.sink}})
        of_secret(f, api)
        await until(lambda: len(api.watches(SECRETS)) == 1)
        api.hang = True
        await until(lambda: f.log.of(Lost))
        api.hang = False
        await f.connected(2)
        await until(lambda: len([delta for delta in more.deltas if isinstance(delta, Synced)]) == 2)


async def test_a_refusal_is_said_to_its_sink_alone_and_the_cluster_stays(api: MiniApi) -> None:
    more = Recorder()
    api.refuse["list", "secrets"] = lambda: status(403, "Forbidden", "no")
    async with fleet() as f:
        f.connections.want({"w": {IN_A: more.sink}})
        of_secret(f, api)
        await until(lambda: any(isinstance(delta, Off) for delta in more.deltas))
        assert f.connections.executor("w") is not None
        assert not any(isinstance(delta, Off) for delta in f.log.deltas)


async def test_a_cluster_that_took_the_place_of_another_is_noticed_where_nothing_else_is_watched(api: MiniApi) -> None:
    """Candidates alone: an ordinary end of their watches is all that there is to see of it."""
    more = Recorder()
    async with fleet(specs=()) as f:
        f.connections.want({"w": {IN_A: more.sink}})
        of_secret(f, api)
        await until(lambda: len(api.watches(SECRETS)) == 1)
        api.incarnation, api.version, api.objects["secrets"] = "inc-2", 50, [obj("x", 40)]
        api.stream(SECRETS).put_nowait(END)
        await f.connected(2)
        assert f.log.of(Connected)[1].incarnation == "inc-2"
        await until(lambda: "listed x@40" in more.seen())


async def test_the_identity_is_asked_for_when_a_watch_that_was_opened_anew_is_let_go(api: MiniApi) -> None:
    more = Recorder()
    async with fleet(specs=()) as f:
        f.connections.want({"w": {IN_A: more.sink}})
        of_secret(f, api)
        await until(lambda: len(api.watches(SECRETS)) == 1)
        api.stream(SECRETS).put_nowait(END)
        await until(lambda: len(api.watches(SECRETS)) == 2)
        api.incarnation = "inc-2"
        f.connections.want({})
        await f.connected(2)
        assert f.log.of(Connected)[1].incarnation == "inc-2"
