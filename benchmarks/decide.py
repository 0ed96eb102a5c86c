"""How many times a second the pure core can be asked what follows, on the states that a recorded run went through.

After each event every stream that has become due is asked, as the loop does. Most answers are "nothing yet"; the others
are the decisions that the recorded run took.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

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
    states, seconds, asked, decided = new_fleet(), 0.0, 0, 0
    clock = time.perf_counter
    for recorded in events:
        states.fold(recorded)
        for stream in states.take_dirty():
            started = clock()
            answer = states.decide(stream, recorded.recorded_at)
            seconds += clock() - started
            asked += 1
            decided += len(answer.events)
    return seconds, asked, decided


def _deciding(events: Sequence[Recorded]) -> float:
    """Return decisions a second, counting only the time of passes that decided something."""
    states, seconds, decided = new_fleet(), 0.0, 0
    clock = time.perf_counter
    for recorded in events:
        states.fold(recorded)
        for stream in states.take_dirty():
            started = clock()
            answer = states.decide(stream, recorded.recorded_at)
            if answer.events:
                seconds += clock() - started
                decided += len(answer.events)
    return decided / seconds
