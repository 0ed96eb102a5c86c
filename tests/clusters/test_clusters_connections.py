"""Connections: reaching, losing and regaining clusters, and leaving nothing behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controlplane.clusters import kubeconfig as kubeconfigs
from controlplane.clusters.connection_reports import Connected, ConnectFailed, Lost, Reached, Removed, StoreRestored
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import JOBS, ObjectRef, Request
from controlplane.telemetry import Metrics
from tests.clusters.fleet import QUICK, Fleet, fleet, of_secret
from tests.clusters.miniapi import (
    CUT,
    END,
    MiniApi,
    bookmark,
    gone_line,
    kubeconfig,
    line,
    obj,
    serving,
    status,
    until,
)


async def lost_after_15(f: Fleet, api: MiniApi) -> None:
    """The server is connected, shows an object at version 15, and hangs until it counts as lost."""
    of_secret(f, api)
    await f.connected()
    api.version = 15
    api.stream().put_nowait(line("ADDED", obj("a", 15)))
    await until(lambda: "added a@15" in f.log.seen())
    api.hang = True
    await until(lambda: f.log.of(Lost))


async def test_reached_then_listed_then_connected(api: MiniApi) -> None:
    api.objects["jobs"] = [obj("a", 1)]
    async with fleet() as f:
        assert f.connections.executor("w") is None
        of_secret(f, api)
        await f.connected()
        assert f.log.facts == [("w", Reached("inc-1", "v1.34.2")), ("w", Connected("inc-1", "v1.34.2", ()))]
        assert sorted(f.log.seen()) == ["listed a@1", "synced", "synced"]
        assert f.connections.names == {"w"}
        assert f.connections.executor("w") is not None


async def test_reached_comes_before_the_first_delta_and_seeds_are_asked_for_after_it(api: MiniApi) -> None:
    order: list[str] = []

    async def fact(cluster: str, found: Any) -> None:
        order.append(type(found).__name__)

    async def sink(cluster: str, deltas: Any) -> None:
        order.append("deltas")

    def known(cluster: str, kind: Any) -> dict[str, tuple[str, str, str]]:
        order.append("known")
        return {}

    async with fleet(facts=fact, sink=sink, known=known) as f:
        of_secret(f, api)
        await until(lambda: "Connected" in order)
    assert order == ["Reached", "known", "known", "deltas", "deltas", "Connected"]


async def test_the_executor_writes(api: MiniApi) -> None:
    counts: list[tuple[str, ...]] = []
    async with fleet(on_request=lambda *what: counts.append(what[:-1])) as f:
        of_secret(f, api)
        await f.connected()
        executor = f.connections.executor("w")
        assert executor is not None
        api.write_answers = [status(404, "NotFound")]
        assert await executor.execute(Request("delete", ObjectRef(JOBS, "ns", "a"), uid="u")) is None
        assert counts == [("w", "delete", "jobs.batch", "404")]


async def test_a_request_is_counted_and_timed(api: MiniApi) -> None:
    metrics = Metrics()
    labels = {"cluster": "w", "verb": "delete"}
    async with fleet(on_request=metrics.request_ended) as f:
        of_secret(f, api)
        await f.connected()
        executor = f.connections.executor("w")
        assert executor is not None
        assert metrics.registry.get_sample_value("controlplane_api_request_seconds_count", labels) is None
        api.write_answers = [status(404, "NotFound"), status(404, "NotFound")]
        for name in "ab":
            await executor.execute(Request("delete", ObjectRef(JOBS, "ns", name), uid="u"))
    assert metrics.registry.get_sample_value("controlplane_api_request_seconds_count", labels) == 2
    assert (metrics.registry.get_sample_value("controlplane_api_request_seconds_sum", labels) or 0) > 0
    counted = {**labels, "resource": "jobs.batch", "code": "404"}
    assert metrics.registry.get_sample_value("controlplane_api_requests_total", counted) == 2


async def test_an_ordinary_end_of_a_watch_is_no_loss(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.open_watches == 2)
        for piece in (bookmark(20), END, line("ADDED", obj("a", 21)), END):
            api.stream().put_nowait(piece)
        await until(lambda: len(api.watches()) == 3)
        assert [seen.query["resourceVersion"] for seen in api.watches()] == ["10", "20", "21"]
        assert len(api.lists()) == 1
        assert f.kinds() == ["Reached", "Connected"]


async def test_kinds_that_are_not_to_be_had_are_off_and_the_others_work(api: MiniApi) -> None:
    api.refuse["list", "jobs"] = lambda: status(404, "NotFound")
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        assert f.log.of(Connected)[0].kinds_off == ("jobs.batch",)
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: "added a@11" in f.log.seen())
        del api.refuse["list", "jobs"]
        await until(lambda: f.log.seen().count("synced") == 2)
        assert f.log.seen().count("off NotServed") == 1
        assert f.kinds() == ["Reached", "Connected"]


async def test_a_half_open_server_is_lost_and_listed_when_it_is_back(api: MiniApi) -> None:
    async with fleet() as f:
        await lost_after_15(f, api)
        assert f.log.of(Lost)[0].reason == "Unreachable"
        assert f.connections.executor("w") is None
        await until(lambda: f.log.of(ConnectFailed))
        api.hang, api.version, api.objects["workloads"] = False, 20, [obj("a", 15), obj("b", 18)]
        await f.connected(2)
        # It is announced when what was missed is in view, not before.
        assert {"listed b@18", "gap"} <= set(f.log.seen())
        await until(lambda: len(api.watches()) >= 2)
        assert api.watches()[-1].query["resourceVersion"] == "20"
        assert not f.log.of(StoreRestored)


async def test_a_cluster_that_was_built_anew_is_noticed_when_its_watches_are_cut(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.watches())
        api.incarnation, api.version, api.objects["workloads"] = "inc-2", 50, [obj("b", 40)]
        api.stream().put_nowait(CUT)
        await f.connected(2)
        assert "another cluster answers at this address (inc-2, not inc-1)" in f.log.of(Lost)[0].message
        assert f.log.of(Connected)[1].incarnation == "inc-2"
        assert "listed b@40" in f.log.seen()


async def test_a_cluster_that_took_the_place_between_two_watches_is_noticed(api: MiniApi) -> None:
    """As behind a name that leads somewhere else from now on: no connection breaks."""
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.open_watches == 2)
        api.incarnation, api.version, api.objects["workloads"] = "inc-2", 50, [obj("b", 40)]
        api.stream().put_nowait(END)
        await f.connected(2)
        assert f.log.of(Connected)[1].incarnation == "inc-2"
        assert "listed b@40" in f.log.seen()


async def test_the_identity_is_asked_for_again_where_the_question_was_not_answered(api: MiniApi) -> None:
    async with fleet(timing=replace(QUICK, suspect_grace=3600.0)) as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.open_watches == 2)
        api.next_answers = [status(503, "ServiceUnavailable") for _ in range(10_000)]
        api.incarnation, api.version = "inc-2", 50
        api.stream().put_nowait(END)
        await until(lambda: [one.path for one in api.requests].count("/api/v1/namespaces/kube-system") >= 2)
        api.next_answers.clear()
        await f.connected(2)
        assert f.log.of(Connected)[1].incarnation == "inc-2"


async def test_the_identity_is_not_asked_for_as_long_as_the_first_watches_last(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.open_watches == 2)
        since = len(api.requests)
        await until(lambda: [one.path for one in api.requests[since:]].count("/version") >= 5)
        asked = [one.path for one in api.requests[since:]]
        assert "/api/v1/namespaces/kube-system" not in asked
        assert f.kinds() == ["Reached", "Connected"]


async def test_a_store_restored_while_the_server_was_away_is_another_life(api: MiniApi) -> None:
    async with fleet() as f:
        await lost_after_15(f, api)
        api.version, api.objects["workloads"] = 12, [obj("b", 11)]
        api.hang = False
        await until(lambda: f.log.of(StoreRestored))
        await until(lambda: {"listed b@11", "gone a@12"} <= set(f.log.seen()))


async def test_a_cluster_that_answers_again_is_not_kept_waiting(api: MiniApi) -> None:
    """However long the pause between two attempts that are shown has grown, it is looked for quietly meanwhile."""
    async with fleet(timing=replace(QUICK, backoff_base=600.0, backoff_cap=600.0, away_probe=0.05)) as f:
        of_secret(f, api)
        await f.connected()
        api.hang = True
        await until(lambda: f.log.of(Lost))
        before = len(api.requests)
        await until(lambda: len(api.requests) >= before + 3)
        assert not f.log.of(ConnectFailed)
        api.hang = False
        await f.connected(2)


async def test_credentials_that_are_no_longer_good_do_not_count_as_an_answer(api: MiniApi) -> None:
    async with fleet(timing=replace(QUICK, backoff_base=600.0, backoff_cap=600.0, away_probe=0.02)) as f:
        of_secret(f, api)
        await f.connected()
        api.token = "another"
        api.stream().put_nowait(END)
        await until(lambda: f.log.of(Lost))
        before = len(api.requests)
        await until(lambda: len(api.requests) >= before + 5)
        assert f.kinds()[-1] == "Lost"


async def test_one_missed_heartbeat_is_a_doubt_and_no_loss(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        for _ in range(3):
            api.next_answers = [status(503)]
            await until(lambda: not api.next_answers)
            seen = len(api.requests)
            await until(lambda seen=seen: len(api.requests) > seen + 1)
        doubts = ["Suspected", "Recovered"]
        await until(lambda: f.kinds()[2:] == doubts * 3)
        assert f.kinds() == ["Reached", "Connected", *doubts * 3]


async def test_silence_within_the_grace_is_no_loss(api: MiniApi) -> None:
    async with fleet(timing=replace(QUICK, suspect_grace=1000.0)) as f:
        of_secret(f, api)
        await f.connected()
        api.next_answers = [status(503)] * 5
        await until(lambda: f.kinds()[-1] == "Recovered")
        assert f.kinds() == ["Reached", "Connected", "Suspected", "Recovered"]


async def test_a_gateway_without_a_server_behind_it_is_a_loss(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        api.next_answers = [status(503), status(502)]
        await until(lambda: f.log.of(Lost))
        await f.connected(2)


async def test_another_incarnation_is_listed_again(api: MiniApi) -> None:
    api.objects["jobs"] = [obj("a", 1)]
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        api.hang = True
        await until(lambda: f.log.of(Lost))
        api.incarnation, api.objects = "inc-2", {}
        api.hang = False
        await f.connected(2)
        assert f.log.of(Reached)[-1].incarnation == "inc-2"
        assert f.log.seen().count("gap") == 2
        assert "gone a@10" in f.log.seen()


async def test_kube_system_may_be_forbidden(api: MiniApi) -> None:
    api.incarnation = ""
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        assert f.log.of(Connected)[0].incarnation == ""


async def test_a_cluster_that_does_not_answer_is_tried_again_with_growing_numbers() -> None:
    async with fleet() as f:
        f.secrets["s"] = kubeconfig("https://127.0.0.1:1")
        f.connections.set("w", SecretSource("s"))
        await until(lambda: len(f.log.of(ConnectFailed)) >= 3)
        failed = f.log.of(ConnectFailed)
        assert [fact.attempt for fact in failed[:3]] == [1, 2, 3]
        assert {fact.reason for fact in failed} == {"ClientConnectionFailed"}
        assert all(fact.next_attempt_at is not None and fact.next_attempt_at.tzinfo is not None for fact in failed)


async def test_one_cluster_in_trouble_is_alone(api: MiniApi) -> None:
    async with serving(MiniApi(hang=True)) as second, fleet() as f:
        of_secret(f, second, "bad")
        of_secret(f, api, "good")
        await f.connected()
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: "added a@11" in f.log.seen())
        assert f.connections.executor("good") is not None
        assert f.connections.executor("bad") is None
        assert {name for name, fact in f.log.facts if isinstance(fact, Connected)} == {"good"}


@pytest.mark.parametrize("where", ["read", "opened"])
async def test_a_kubeconfig_that_fails_as_nobody_foresaw_ends_no_other_cluster(
    api: MiniApi, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the whole service, and would have done so at each start."""
    parse = kubeconfigs._parse

    def parses(data: bytes) -> Any:
        if where == "read" and data.endswith(b"# odd"):
            raise IndexError("a secret value")
        return parse(data)

    def opens(name: str, config: ClientConfig) -> Transport:
        if where == "opened" and name == "odd":
            raise IndexError("a secret value")
        return Transport(name, config)

    monkeypatch.setattr(kubeconfigs, "_parse", parses)
    async with fleet(open_server=opens) as f:
        f.secrets["secret-odd"] = kubeconfig(api.url) + b"\n# odd"
        f.connections.set("odd", SecretSource("secret-odd"))
        of_secret(f, api, "good")
        await f.connected()
        await until(lambda: f.log.of(ConnectFailed))
        ((name, fact),) = [one for one in f.log.facts if isinstance(one[1], ConnectFailed)]
        assert (name, fact.reason) == ("odd", "BadKubeConfig")
        assert "not foreseen (IndexError at " in fact.message
        assert "secret value" not in fact.message
        assert f.connections.executor("good") is not None


async def test_removing_closes_and_says_so(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        await until(lambda: api.open_watches == 2)
        await f.connections.remove("w")
        await f.connections.remove("unknown")
        assert f.log.facts[-1] == ("w", Removed())
        assert (f.connections.names, f.connections.executor("w")) == (frozenset(), None)
        await until(lambda: api.open_watches == 0)
        of_secret(f, api)
        await f.connected(2)


async def test_closing_reports_nothing(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        running = asyncio.create_task(f.connections.run())
        await asyncio.sleep(0)
        await f.connections.close()
        await running
        assert f.kinds() == ["Reached", "Connected"]
        await until(lambda: api.open_watches == 0)


async def test_a_sink_that_fails_ends_the_whole(api: MiniApi) -> None:
    async with fleet() as f:
        f.log.fail = RuntimeError("deposed")
        of_secret(f, api)
        with pytest.raises(RuntimeError, match="deposed"):
            await f.connections.run()


async def test_a_gap_on_one_kind_is_no_loss(api: MiniApi) -> None:
    async with fleet() as f:
        of_secret(f, api)
        await f.connected()
        api.stream().put_nowait(gone_line())
        await until(lambda: "gap" in f.log.seen())
        assert f.kinds() == ["Reached", "Connected"]
        assert len(api.lists(JOBS)) == 1
