"""Following one kind of a store that may be another one: what was overtaken, what the log knows better, and what is no
other history.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controlplane.clusters import contradictions
from controlplane.clusters.pace import Pace
from tests.clusters.following import QUICK, Following, following
from tests.clusters.miniapi import (
    CUT,
    END,
    MiniApi,
    bookmark,
    line,
    obj,
    status,
    until,
)
from tests.support.waiting import PATIENCE


async def cut(api: MiniApi) -> None:
    """Break the open watch; returns once there is the next one."""
    before = len(api.watches())
    api.stream().put_nowait(CUT)
    await until(lambda: len(api.watches()) > before)


async def test_a_cut_connection_costs_a_list_because_the_store_may_be_another_one(api: MiniApi) -> None:
    async with following(api) as f:
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: len(f.log.deltas) == 2)
        api.version, api.objects["workloads"] = 12, [obj("a", 11), obj("b", 12)]
        await cut(api)
        await f.shows("synced", "added a@11", "listed a@11", "listed b@12", "gap")
        assert api.watches()[-1].query["resourceVersion"] == "12"
        assert f.restored == []


#: What a cluster shows after a backup was restored and more was written than we had seen: a at 11 and b at 12, up to
#: 13, are what we know.
OVERTAKEN = [
    ("an object that was written in the past that we know", [obj("a", 11), obj("b", 12), obj("c", 13)], "ns/c is at"),
    (
        "an object that was changed in the past that we know",
        [obj("a", 11), obj("b", 13)],
        "ns/b is at resourceVersion 13",
    ),
    ("an object that is older than it was", [obj("a", 11), obj("b", 9)], "ns/b is at resourceVersion 9, and was at 12"),
    ("a later object on a later page", [obj("a", 11), obj("b", 12), obj("d", 40), obj("e", 10)], "ns/e is at"),
]


@pytest.mark.parametrize(("shown", "why"), [row[1:] for row in OVERTAKEN], ids=[row[0] for row in OVERTAKEN])
async def test_a_restored_store_that_has_grown_past_ours_is_noticed(api: MiniApi, shown: list[Any], why: str) -> None:
    async with following(api) as f:
        for piece in (line("ADDED", obj("a", 11)), line("ADDED", obj("b", 12)), bookmark(13)):
            api.stream().put_nowait(piece)
        await until(lambda: len(f.log.deltas) == 3)
        await asyncio.sleep(0.02)
        f.log.deltas.clear()
        api.version, api.objects["workloads"] = 50, shown
        await cut(api)
        assert len(f.restored) == 1
        assert why in f.restored[0]
        # Everything is shown once more in the new life, whatever was shown before it was noticed.
        wanted = [f"listed {o['metadata']['name']}@{o['metadata']['resourceVersion']}" for o in shown]
        gone = [] if any(o["metadata"]["name"] == "b" for o in shown) else ["gone b@50"]
        assert f.log.seen()[-len(wanted) - len(gone) - 1 :] == [*wanted, *gone, "gap"]
        await cut(api)
        assert len(f.restored) == 1


async def test_a_list_says_what_was_seen_at_this_very_version(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 7), obj("b", 8), obj("c", 9)]
    known = {"uid-a": ("ns", "a", "7"), "uid-b": ("ns", "b", "6"), "uid-c": ("ns", "c", "")}
    async with following(api, known) as f:
        await f.shows("listed a@7", "listed b@8", "listed c@9", "synced")
        assert [delta.seen for delta in f.log.deltas[:3]] == [True, False, False]
        api.version, api.objects["workloads"] = 12, [obj("a", 7), obj("b", 8), obj("c", 11)]
        await cut(api)
        assert [delta.seen for delta in f.log.deltas[4:7]] == [True, True, False]


async def test_what_was_written_while_the_connection_was_cut_is_no_other_history(api: MiniApi) -> None:
    async with following(api) as f:
        for piece in (line("ADDED", obj("a", 11)), line("ADDED", obj("b", 12)), bookmark(13)):
            api.stream().put_nowait(piece)
        await until(lambda: len(f.log.deltas) == 3)
        api.version, api.objects["workloads"] = 50, [obj("a", 14), obj("c", 15)]
        await cut(api)
        assert f.restored == []


async def test_an_unreadable_line_may_have_been_any_object(api: MiniApi) -> None:
    async with following(api) as f:
        for piece in (line("ADDED", obj("a", 11)), b'{"type": "ADD\n', bookmark(13)):
            api.stream().put_nowait(piece)
        await until(lambda: f.poison)
        api.version, api.objects["workloads"] = 50, [obj("a", 11), obj("b", 12)]
        await cut(api)
        assert f.restored == []
        assert f.log.seen()[-3:] == ["listed a@11", "listed b@12", "gap"]


async def test_what_the_log_knows_of_an_object_may_be_newer_than_what_a_restored_store_shows(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 7)]
    async with following(api, {"uid-a": ("ns", "a", "8")}) as f:
        await f.shows("listed a@7", "synced")
        assert f.restored == [
            "the history of workloads.kueue.x-k8s.io went back: ns/a is at resourceVersion 7, and was at 8"
        ]


async def test_what_the_log_saw_go_does_not_come_back(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 7), obj("b", 8)]
    gone = {"uid-b"}
    f = Following(api, is_gone=gone.__contains__)
    f._forget = gone.clear
    try:
        f.start()
        await f.shows("listed a@7", "listed b@8", "synced")
        assert f.restored == ["the history of workloads.kueue.x-k8s.io went back: ns/b (uid-b) was gone"]
    finally:
        await f.stop()
        await f.transport.close()


async def test_what_was_there_at_the_version_of_a_list_is_on_it(api: MiniApi) -> None:
    """A store that went back has grown to the version that we saw last, and what had that version is not there."""
    api.version, api.objects["workloads"] = 9, [obj("a", 7)]
    known = {"uid-a": ("ns", "a", "7"), "uid-b": ("ns", "b", "9"), "uid-c": ("ns", "c", "8")}
    async with following(api, known) as f:
        await f.shows("listed a@7", "listed a@7", "gone b@9", "gone c@9", "synced")
        assert f.restored == [
            "the history of workloads.kueue.x-k8s.io went back: ns/b (uid-b) was there at resourceVersion 9"
        ]


async def test_what_the_log_knows_of_an_earlier_life_denies_nothing(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 7)]
    async with following(api, {"uid-a": ("ns", "a", "")}) as f:
        await f.shows("listed a@7", "synced")
        assert f.restored == []


async def test_another_cluster_at_the_same_address_is_not_listed(api: MiniApi) -> None:
    async with following(api) as f:
        await f.shows("synced")

        async def identify(server: Any) -> None:
            raise RuntimeError("another cluster")

        f.reflector._identify = identify
        api.stream().put_nowait(CUT)
        assert f.task is not None
        with pytest.raises(RuntimeError, match="another cluster"):
            await f.task
        assert len(api.lists()) == 1


@pytest.mark.parametrize(("code", "lists"), [(400, 1), (429, 2), (500, 2), (503, 2)])
async def test_a_server_that_does_not_serve_is_out_of_sight_for_a_moment(api: MiniApi, code: int, lists: int) -> None:
    async with following(api) as f:
        await f.shows("synced")
        refusals = [status(code)]
        api.refuse["watch", "workloads"] = lambda: refusals.pop()
        api.stream().put_nowait(END)
        await until(lambda: not refusals)
        del api.refuse["watch", "workloads"]
        await until(lambda: len(api.watches()) == 3)
        assert len(api.lists()) == lists


async def test_a_history_that_went_back_is_listed_again(api: MiniApi) -> None:
    pace = Pace(idle_timeout=0.1, backoff_base=0.01, backoff_cap=0.02)
    api.objects["workloads"] = [obj("a", 9), obj("b", 10)]
    async with following(api, pace=pace) as f:
        await until(lambda: len(api.watches()) >= 1)
        api.version, api.objects["workloads"] = 5, [obj("a", 4)]
        await until(lambda: "gap" in f.log.seen())
        assert f.log.seen()[3:] == ["listed a@4", "gone b@5", "gap"]


async def test_a_version_too_large_is_listed_again(api: MiniApi) -> None:
    refusals = [status(504, "Timeout", "Too large resource version: 10, current: 5")]
    api.refuse["watch", "workloads"] = lambda: refusals.pop()
    async with following(api) as f:
        await until(lambda: not refusals)
        del api.refuse["watch", "workloads"]
        await f.shows("synced", "gap")


async def test_what_was_on_its_way_into_the_log_when_another_history_was_found_is_not_forgotten(api: MiniApi) -> None:
    """The log took it in the moment in which whoever told it was stopped: what is not on the next list is gone all the
    same.
    """
    async with following(api) as f:
        await f.shows("synced")
        take = f.log.sink

        async def taken_at_the_last_moment(cluster: str, deltas: Any) -> None:
            await take(cluster, deltas)
            f.reflector.forget_position()  # by another kind of the same cluster
            await asyncio.Event().wait()  # until it is stopped

        f.reflector._sink = taken_at_the_last_moment
        api.version = 9
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: len(f.log.deltas) == 2)
        f.reflector._sink = take
        await f.shows("synced", "added a@11", "gone a@9", "gap")


async def test_what_was_told_of_the_history_before_is_told_again_of_this_one(api: MiniApi) -> None:
    """Its version says the same in both, and not the same of the object."""
    async with following(api) as f:
        await f.shows("synced")
        take = f.log.sink

        async def answered_together(cluster: str, deltas: Any) -> None:
            await take(cluster, deltas)
            f.reflector.forget_position()

        f.reflector._sink = answered_together
        api.version, api.objects["workloads"] = 12, [obj("a", 11)]
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: len(f.log.deltas) == 2)
        f.reflector._sink = take
        await f.shows("synced", "added a@11", "listed a@11", "gap")
        assert [delta.seen for delta in f.log.deltas[1:3]] == [False, False]


@pytest.mark.parametrize("known", [True, False])
async def test_a_change_of_what_was_never_shown_costs_a_list(api: MiniApi, known: bool) -> None:
    """As where a watch goes on in a store that was put back, and has grown past the watch's place: b was added before
    that. It is listed at once, and not when the watch shows something more."""
    async with following(api, pace=replace(QUICK, idle_timeout=10 * PATIENCE)) as f:
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await until(lambda: len(f.log.deltas) == 2)
        before = len(api.lists())
        api.version, api.objects["workloads"] = 50, [obj("a", 11), obj("b", 40)]
        api.stream().put_nowait(line("MODIFIED", obj("a" if known else "b", 40)))
        if known:
            await f.shows("synced", "added a@11", "modified a@40")
            assert len(api.lists()) == before
        else:
            await f.shows("synced", "added a@11", "listed a@11", "listed b@40", "gap")
            assert api.watches()[-1].query["resourceVersion"] == "50"


async def test_a_change_of_what_the_watch_has_shown_to_go_costs_a_list(api: MiniApi) -> None:
    """What was added and is gone is no more remembered than what was never shown."""
    async with following(api, pace=replace(QUICK, idle_timeout=10 * PATIENCE)) as f:
        for shown in (line("ADDED", obj("a", 11)), line("DELETED", obj("a", 12))):
            api.stream().put_nowait(shown)
        await until(lambda: len(f.log.deltas) == 3)
        api.version, api.objects["workloads"] = 50, [obj("b", 40)]
        api.stream().put_nowait(line("MODIFIED", obj("a", 41)))
        await f.shows("synced", "added a@11", "gone a@12", "listed b@40", "gap")


async def test_what_is_not_there_and_shown_for_too_long_costs_a_list(
    api: MiniApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.objects["workloads"] = [obj("a", 7)]
    async with following(api) as f:
        await until(lambda: len(api.watches()) == 1)
        api.version, api.objects["workloads"] = 50, []
        f.reflector.absent("ns", "a")
        f.reflector.absent("ns", "other")
        f.reflector.absent("ns", "a")
        await f.shows("listed a@7", "synced")  # the watch may be on its way
        monkeypatch.setattr(contradictions, "LATE", 0.0)
        f.reflector.absent("ns", "other")
        assert len(api.lists()) == 1
        f.reflector.absent("ns", "a")
        await f.shows("listed a@7", "synced", "gone a@50", "gap")
        f.reflector.absent("ns", "a")
        assert len(api.lists()) == 2
