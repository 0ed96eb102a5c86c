"""How many times a second the pure core can be asked what follows, on the states that a recorded run went through.

After each event every stream that has become due is asked, as the loop does. Most answers are "nothing yet"; the others
are the decisions that the recorded run took.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence

from benchmarks.machine import database, show
from benchmarks.recording import new_fleet, record
from controlplane.log.event import Recorded


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        events = await record(url, args)
    passes = [_decide(events) for _ in range(args.repeat)]
    seconds = statistics.median(seconds for seconds, _, _ in passes)
    _, asked, decided = passes[0]
    rows: list[list[object]] = [
        ["passes", asked],
        ["passes/s", asked / seconds],
        ["decisions in them", decided],
        ["decisions/s", decided / seconds],
        ["decisions/s, were there nothing but passes that decide", _deciding(events)],
    ]
    show(f"decide: {len(events):,} events, one process, median of {args.repeat}", ["", "figure"], rows)


def _decide(events: Sequence[Recorded]) -> tuple[float, int, int]:
    """Return the seconds spent in deciding, how often it was asked, and how many decisions came of it."""
    answers = list(_asked(events))
    return sum(seconds for seconds, _ in answers), len(answers), sum(decided for _, decided in answers)


def _deciding(events: Sequence[Recorded]) -> float:
    """Return decisions a second, counting only the time of passes that decided something."""
    answers = [answer for answer in _asked(events) if answer[1]]
    return sum(decided for _, decided in answers) / sum(seconds for seconds, _ in answers)


def _asked(events: Sequence[Recorded]) -> Iterator[tuple[float, int]]:
    """Yield, for each time that a stream was asked, the seconds that its answer took, and how many decisions it had."""
    states, clock = new_fleet(), time.perf_counter
    for recorded in events:
        states.fold(recorded)
        for stream in states.take_dirty():
            started = clock()
            answer = states.decide(stream, recorded.recorded_at)
            yield clock() - started, len(answer.events)
