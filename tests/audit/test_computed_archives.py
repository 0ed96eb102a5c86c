"""What SQL says of archives and of the streams that left is what the log had before, computed from its events."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.audit.test_views import query
from tests.log.archived import archive, connected, dropped, over, written

EVENTS = "SELECT position, stream, recorded_at FROM controlplane.events WHERE log = 'main' ORDER BY position"
BATCHES = "SELECT last, encode(hash, 'hex') AS hash FROM controlplane.batches WHERE log = 'main'"
SIZE = 20


def bounds(batches: list[dict[str, Any]], head: int) -> list[tuple[int, int]]:
    """Return the first and the last positions of archives: each ends with the last batch of a full partition."""
    found, begin = [], 1
    for full in range(SIZE, head, SIZE):
        end = max(one["last"] for one in batches if one["last"] <= full)
        if end >= begin:
            found.append((begin, end))
            begin = end + 1
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_archives_have_the_positions_and_times_of_their_events(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    await written(database_url, rounds=random.randint(20, 60))
    events, batches = query(database_url, EVENTS), query(database_url, BATCHES)
    kept = {f"short/{number}" for number in range(60) if random.random() < 0.4}
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        dropped(owner, tmp_path, over(1 << 40, *kept))
    at, hashes = {one["position"]: one["recorded_at"] for one in events}, {one["last"]: one["hash"] for one in batches}
    expected = [
        {"first": first, "last": last, "since": at[first], "until": at[last], "hash": hashes[last]}
        for first, last in bounds(batches, events[-1]["position"])
    ]
    asked = "SELECT first, last, since, until, hash FROM audit.archives WHERE log = 'main' ORDER BY first"
    assert query(database_url, asked) == expected
    assert not query(database_url, "SELECT FROM audit.archives WHERE dropped_at IS NULL")

    end = expected[-1]["last"]
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for one in events:
        positions[one["stream"]].append(one["position"])
    left = {
        stream: found[-1]
        for stream, found in positions.items()
        if stream.startswith("short/") and stream not in kept and found[-1] <= end
    }
    streams = query(database_url, "SELECT stream, events, archived_to FROM audit.streams WHERE log = 'main'")
    assert {one["stream"]: (one["events"], one["archived_to"]) for one in streams} == {
        stream: (len(found), left.get(stream)) for stream, found in positions.items()
    }
    there = {one["position"] for one in query(database_url, EVENTS)}
    assert there == {one["position"] for one in events if one["stream"] not in left}
