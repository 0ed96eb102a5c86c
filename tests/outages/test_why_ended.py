"""What `why` says of a job that was lost with its cluster, tried again, and ended: of a log that the service itself
wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controlplane.audit.answer import answer
from controlplane.audit.find import events_of, find
from controlplane.audit.reads import LogReader
from controlplane.clock import SystemClock
from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.hosting import reading_policy
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_lost import taken_from

Make = Callable[..., Awaitable[Stage]]


def ask(on: Stage) -> Explanation:
    with LogReader.connect(on.url) as reader:
        found = find(reader, NS, "train")
        assert found is not None
        return answer(reader, reading_policy(settings()), found, SystemClock().now())


async def test_an_outage_a_retry_and_the_end(stage: Make) -> None:
    on = await stage("a", "b", roomy=("a",))
    await taken_from(on, "a")
    on.make_room("b")
    await on.running("b")
    on.end("b")
    await on.until(lambda: ask(on).standing.word == "Finished", "finished")
    on.heal("a")
    await on.until(lambda: not on.clones() and not on.jobs(), "the copies gone")
    told = await asyncio.to_thread(ask, on)

    assert told.sentence.startswith("It finished on b")
    proof = told.events[-1]
    shown = await asyncio.to_thread(finished, on)
    assert proof == shown[0]  # not the newest that shows it
    about: dict[str, list[str]] = {}
    for one in told.statements:
        about.setdefault(one.about, []).append(one.text)
        assert one.events, one.text
    assert [one.cluster for one in told.statements if one.about == "Placed"] == ["a", "b"]
    (taken,) = (one for one in told.statements if one.about == "TakenBack")
    assert "a could not be reached until its grace" in taken.text
    decided = taken.events[0].event
    assert isinstance(decided, CheckStateDecided)
    assert decided.reason == "RemoteLost"
    (away,) = (one for one in told.statements if one.about == "Away" and one.cluster == "a")
    assert away.seconds is not None
    assert away.seconds > 1.0
    # When a was back, the same copy was seen to run there: so it had run on both meanwhile.
    assert [text.startswith("it ran on a and b at once for") for text in about["AtOnce"]] == [True], about
    assert len(about["Times"]) == 1


def finished(on: Stage) -> list[Recorded]:
    with LogReader.connect(on.url) as reader:
        found = find(reader, NS, "train")
        assert found is not None
        events = events_of(reader, found)
    return [e for e in events if isinstance(e.event, WorkloadObserved) and e.event.is_true("Finished")]
