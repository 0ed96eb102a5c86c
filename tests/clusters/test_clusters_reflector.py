"""Following one kind: list, watch, resume, relist; what is delivered, in which order, and what it costs."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from aiohttp import web

from controlplane.clusters.pace import Pace
from controlplane.clusters.reflector import Rejected
from tests.clusters.following import QUICK, following
from tests.clusters.miniapi import (
    END,
    MiniApi,
    bookmark,
    gone_line,
    line,
    obj,
    status,
    until,
)
from tests.support.waiting import PATIENCE


async def test_list_in_pages_then_watch_from_there(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 1), obj("b", 2), obj("c", 3)]
    async with following(api) as f:
        api.stream().put_nowait(line("ADDED", obj("d", 11)) + line("DELETED", obj("a", 12)))
        await f.shows("listed a@1", "listed b@2", "listed c@3", "synced", "added d@11", "gone a@12")
        assert len(api.lists()) == 2
        query = api.watches()[0].query
        assert (query["resourceVersion"], query["labelSelector"]) == ("10", "a=b")
        assert 300 <= int(query["timeoutSeconds"]) <= 600
        assert set(f.reflector.known) == {"uid-b", "uid-c", "uid-d"}
        assert all(
            "managedFields" not in delta.object["metadata"] for delta in f.log.deltas if hasattr(delta, "object")
        )
        assert f.reflector.settled.is_set()


async def test_an_ordinary_end_resumes_from_the_last_version_without_a_list(api: MiniApi) -> None:
    async with following(api) as f:
        stream = api.stream()
        for piece in (line("ADDED", obj("a", 11)), END, bookmark(15), END, line("MODIFIED", obj("a", 16))):
            stream.put_nowait(piece)
        await f.shows("synced", "added a@11", "modified a@16")
        assert [seen.query["resourceVersion"] for seen in api.watches()] == ["10", "11", "15"]
        assert len(api.lists()) == 1


async def test_a_silent_connection_is_left_and_listed(api: MiniApi) -> None:
    pace = Pace(idle_timeout=0.1, backoff_base=0.01, backoff_cap=0.02)
    async with following(api, pace=pace) as f:
        await until(lambda: len(api.watches()) >= 3)
        assert set(f.log.seen()) == {"synced", "gap"}
        assert len(api.lists()) >= len(api.watches()) - 1


@pytest.mark.parametrize("inline", [True, False])
async def test_410_relists_and_tells_the_difference(api: MiniApi, inline: bool) -> None:
    api.objects["workloads"] = [obj("a", 1), obj("b", 2), obj("c", 3)]
    async with following(api) as f:
        await until(lambda: api.watches())
        f.log.deltas.clear()
        api.version = 50
        api.objects["workloads"] = [obj("b", 2), obj("c", 44, "another"), obj("d", 45)]
        if inline:
            api.stream().put_nowait(line("MODIFIED", obj("a", 20)) + gone_line())
        else:
            refusals = [status(410, "Expired")]
            api.refuse["watch", "workloads"] = lambda: refusals.pop()
            api.stream().put_nowait(END)
            await until(lambda: not refusals)
            del api.refuse["watch", "workloads"]
        before = ["modified a@20"] if inline else []
        await f.shows(*before, "listed b@2", "gone c@44", "listed c@44", "listed d@45", "gone a@50", "gap")
        gone = f.log.deltas[-2]
        assert gone.object == {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a"},
        }
        assert api.watches()[-1].query["resourceVersion"] == "50"


async def test_what_vanished_while_nobody_watched_is_gone_and_the_rest_is_listed(api: MiniApi) -> None:
    api.objects["workloads"] = [obj("a", 1)]
    known = {"uid-a": ("ns", "a", "1"), "uid-z": ("ns", "z", "1")}
    async with following(api, known) as f:
        await f.shows("listed a@1", "gone z@10", "synced")


async def test_of_several_that_had_a_name_all_are_gone_before_the_one_that_has_it(api: MiniApi) -> None:
    """Two are known of one name where nobody knows whether the log has that the first is gone. Told last, its end would
    be taken for the end of what has the name now."""
    api.objects["workloads"] = [obj("a", 7, "new")]
    known = {"old": ("ns", "a", ""), "older": ("ns", "a", ""), "new": ("ns", "a", "")}
    async with following(api, known) as f:
        await f.shows("gone a@7", "gone a@7", "listed a@7", "synced")
        assert [delta.object["metadata"]["uid"] for delta in f.log.deltas[:3]] == ["old", "older", "new"]


async def test_a_list_whose_snapshot_expires_is_taken_in_one_piece(api: MiniApi) -> None:
    api.objects["workloads"] = [obj(name, 1) for name in "abcde"]
    refusals = [None, status(410, "Expired"), None]

    def refuse() -> Any:
        answer = refusals.pop(0)
        if answer is None:
            if not refusals:
                del api.refuse["list", "workloads"]
            return api._list(api.requests[-1], "workloads")
        return answer

    api.refuse["list", "workloads"] = refuse
    async with following(api) as f:
        await f.shows("listed a@1", "listed b@1", *(f"listed {name}@1" for name in "abcde"), "synced")
        assert "limit" not in api.lists()[-1].query


@pytest.mark.parametrize(("code", "reason"), [(404, "NotServed"), (403, "Forbidden")])
async def test_a_kind_that_is_refused_is_off_once_and_asked_for_again(api: MiniApi, code: int, reason: str) -> None:
    api.refuse["list", "workloads"] = lambda: status(code, message="no such thing")
    async with following(api) as f:
        await until(lambda: len(api.lists()) >= 4)
        assert f.log.seen() == [f"off {reason}"]
        assert f.reflector.settled.is_set()
        assert not f.reflector.available
        del api.refuse["list", "workloads"]
        await f.shows(f"off {reason}", "synced")
        assert f.reflector.available


async def test_a_kind_that_comes_soon_after_the_start_is_not_waited_for_as_long_as_one_that_never_comes(
    api: MiniApi,
) -> None:
    """Its definition is applied, or its right given, while the service begins: the first waits are short, whatever the
    last ones are."""
    api.refuse["list", "workloads"] = lambda: status(404)
    async with following(api, pace=dataclasses.replace(QUICK, off_first=0.01, off_retry=86400.0)) as f:
        await until(lambda: len(api.lists()) >= 4)
        del api.refuse["list", "workloads"]
        await f.shows("off NotServed", "synced")


async def test_a_kind_that_may_be_listed_but_not_watched_does_not_flap(api: MiniApi) -> None:
    api.refuse["watch", "workloads"] = lambda: status(403)
    async with following(api) as f:
        await until(lambda: len(api.watches()) >= 5)
        assert f.log.seen() == ["synced", "off Forbidden"]
        assert len(api.lists()) == 1
        del api.refuse["watch", "workloads"]
        api.stream().put_nowait(END)
        await f.shows("synced", "off Forbidden", "gap")


async def test_a_try_that_gets_no_answer_is_given_up_before_a_watch_would_be(api: MiniApi) -> None:
    """A watch waits for minutes for a byte. Whether a kind may be watched by now is answered within seconds, or it is
    asked again."""
    api.refuse["watch", "workloads"] = lambda: status(403)
    pace = dataclasses.replace(QUICK, idle_timeout=10 * PATIENCE, off_try=0.05)
    async with following(api, pace=pace) as f:
        await f.shows("synced", "off Forbidden")
        del api.refuse["watch", "workloads"]
        tried = len(api.watches())
        await until(lambda: len(api.watches()) >= tried + 3)
        api.stream().put_nowait(END)
        await f.shows("synced", "off Forbidden", "gap")


async def test_poison_is_counted_and_the_stream_goes_on(api: MiniApi) -> None:
    async with following(api) as f:
        api.stream().put_nowait(b'{"type":\n' + line("ADDED", {"spec": 1}) + line("ADDED", obj("a", 11)))
        await f.shows("synced", "added a@11")
        assert len(f.poison) == f.reflector.poisoned == 2


async def test_an_unreadable_item_makes_nothing_gone(api: MiniApi) -> None:
    api.objects["workloads"] = [{"metadata": {"name": "a"}}, obj("b", 2)]
    async with following(api, {"uid-a": ("ns", "a", "1")}) as f:
        await f.shows("listed b@2", "synced")
        assert f.reflector.poisoned == 1


async def test_a_line_of_five_megabytes_comes_through(api: MiniApi) -> None:
    async with following(api) as f:
        api.stream().put_nowait(line("ADDED", obj("a", 11, annotations={"a": "x" * 5_000_000})))
        await f.shows("synced", "added a@11")
        assert len(f.log.deltas[-1].object["metadata"]["annotations"]["a"]) == 5_000_000


async def test_lines_at_hand_go_together_but_not_too_many(api: MiniApi) -> None:
    async with following(api) as f:
        await f.shows("synced")
        api.stream().put_nowait(b"".join(line("ADDED", obj(f"o{n}", 11 + n)) for n in range(7)))
        await until(lambda: len(f.log.deltas) == 8)
        assert [len(batch) for batch in f.log.batches] == [1, 3, 3, 1]


async def test_a_sink_that_does_not_return_stops_the_reading_and_nothing_is_lost(api: MiniApi) -> None:
    async with following(api) as f:
        await f.shows("synced")
        f.log.gate.clear()
        padding = "x" * 1_000_000
        for number in range(60):
            api.stream().put_nowait(line("ADDED", obj(f"o{number}", 11 + number, annotations={"a": padding})))
        await until(lambda: api.stream().qsize() < 60)
        sizes = []
        for _ in range(200):
            sizes.append(api.stream().qsize())
            if len(sizes) > 20 and len(set(sizes[-20:])) == 1:
                break
            await asyncio.sleep(0.01)
        assert sizes[-1] > 0, "the server could send everything although nobody took it"
        assert len(f.log.deltas) == 1
        f.log.gate.set()
        await until(lambda: len(f.log.deltas) == 61)
        assert [delta.resource_version for delta in f.log.deltas[1:]] == [str(11 + n) for n in range(60)]


async def test_what_the_sink_did_not_take_is_shown_again(api: MiniApi) -> None:
    async with following(api) as f:
        await f.shows("synced")
        f.log.fail = RuntimeError("the log is closed")
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        assert f.task is not None
        with pytest.raises(RuntimeError, match="the log is closed"):
            await f.task
        f.log.fail = None
        f.start()
        await until(lambda: len(api.watches()) == 2)
        assert api.watches()[-1].query["resourceVersion"] == "10"
        assert len(api.lists()) == 1


async def test_stopped_and_run_again_it_resumes(api: MiniApi) -> None:
    async with following(api) as f:
        api.stream().put_nowait(line("ADDED", obj("a", 11)))
        await f.shows("synced", "added a@11")
        await f.stop()
        f.start()
        await until(lambda: len(api.watches()) == 2)
        assert api.watches()[-1].query["resourceVersion"] == "11"
        await f.stop()
        f.reflector.forget_position()
        assert not f.reflector.settled.is_set()
        f.start()
        await f.shows("synced", "added a@11", "gone a@10", "gap")


async def test_credentials_that_are_refused_twice_end_it(api: MiniApi) -> None:
    async with following(api) as f:
        await f.shows("synced")
        api.token = "another"
        api.stream().put_nowait(END)
        assert f.task is not None
        with pytest.raises(Rejected, match="Unauthorized"):
            await f.task


async def test_a_kind_that_always_fails_keeps_nobody_waiting(api: MiniApi) -> None:
    api.refuse["list", "workloads"] = lambda: status(500, "InternalError", "conversion webhook failed")
    async with following(api) as f:
        await until(f.reflector.settled.is_set)
        assert not f.reflector.available
        assert f.log.deltas == []
        del api.refuse["list", "workloads"]
        await f.shows("synced")


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(api: MiniApi) -> None:
    pace = Pace(backoff_base=0.2, backoff_cap=30.0)
    api.refuse["watch", "workloads"] = lambda: web.Response(text="", content_type="application/json")
    async with following(api, pace=pace):
        await until(lambda: api.watches())
        await asyncio.sleep(1.0)
        assert len(api.watches()) <= 12
