"""Logs that this version wrote, and what follows from them: every later version has to read the same out of them.

`python -m tests.interface.logs` plays seeds of the simulation and writes `recorded/*.jsonl`, an event a line, and
beside each what is folded, decided and said of it (`*.json`). It is run when something new is to be kept; what is there
already stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.audit.words import what
from controlplane.dst.engine.quiet import hushed
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.candidates.processes import source_settings
from controlplane.dst.scenes.candidates.run import CandidateRun
from controlplane.dst.scenes.local import processes as local
from controlplane.dst.scenes.local.run import LocalRun
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.log.codec import Codec
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings

FOLDER = Path(__file__).parent / "recorded"


def _as_recorded(settings: Settings) -> Settings:
    """Return settings without what is on by default only since the logs were recorded."""
    candidates = msgspec.structs.replace(settings.candidates, scale_up_wait=timedelta())
    return msgspec.structs.replace(settings, candidates=candidates)


HOSTS: dict[str, Callable[[], ControllerRouter]] = {
    "workloads": lambda: HostedControllers(Settings()).router,
    "source": lambda: HostedControllers(_as_recorded(source_settings())).router,
    "target": lambda: SchedulerControllers(Settings(), ["default-scheduler"], gangs=True).router,
    "local": lambda: local.hosted().router,
    "local-scheduler": lambda: local.scheduler_controllers("shadow").router,
}
"""Who writes each sort of log, by the first word of a log's file."""
LATER = timedelta(minutes=20)


class Line(msgspec.Struct, array_like=True):
    """An event as the table `events` has it."""

    position: int
    stream: str
    version: int
    type: str
    schema: int
    data: str
    cluster: str
    caused_by: int
    recorded_at: datetime


def written(name: str) -> list[Line]:
    return [msgspec.json.decode(line, type=Line) for line in (FOLDER / f"{name}.jsonl").read_bytes().splitlines()]


def recorded(line: Line, codec: Codec) -> Recorded:
    return Recorded(
        position=line.position,
        stream=line.stream,
        version=line.version,
        event=codec.decode(line.type, line.schema, line.data),
        cluster=line.cluster,
        caused_by=line.caused_by,
        recorded_at=line.recorded_at,
    )


def host_of(name: str) -> ControllerRouter:
    return HOSTS[name.rpartition("-")[0]]()


def consequences(name: str) -> dict[str, Any]:
    """What follows from a log: what each event says, and after each quarter of it what is open, and what is decided
    next and when.
    """
    hosted = host_of(name)
    codec = Codec(hosted.types)
    events = [recorded(line, codec) for line in written(name)]
    quarters = {len(events) * quarter // 4 for quarter in (1, 2, 3, 4)}
    after = {}
    for count, event in enumerate(events, 1):
        hosted.fold(event)
        if count in quarters:
            after[str(count)] = state(hosted, events[:count], codec)
    return {
        "unknown": [event.position for event in events if isinstance(event.event, Unknown)],
        "left alone": dict(hosted.left_alone),
        "says": [f"{event.position} {event.stream}: {what(event.event)}" for event in events],
        "after": after,
    }


def state(hosted: ControllerRouter, events: Sequence[Recorded], codec: Codec) -> dict[str, Any]:
    now, streams = events[-1].recorded_at + LATER, sorted({event.stream for event in events})
    return {
        "open": [found for stream in streams for found in opened(hosted, stream)],
        "next": {stream: found for stream in streams if (found := decided(hosted, stream, now, codec))},
    }


def opened(hosted: ControllerRouter, stream: str) -> Iterator[list[Any]]:
    for write in hosted.open_writes(stream):
        yield [stream, write.target, write.cluster, write.position, write.action]


def _encoded(event: Event, codec: Codec) -> tuple[str, int, str]:
    name, schema, data = codec.encode(event)
    return name, schema, data.decode()


def decided(hosted: ControllerRouter, stream: str, now: datetime, codec: Codec) -> list[Any]:
    found = hosted.decide(stream, now)
    events = [[event.stream, *_encoded(event.event, codec), event.cluster, event.caused_by] for event in found.events]
    if not events and found.wake is None:
        return []
    return [found.version, found.wake.isoformat() if found.wake else "", events]


def text(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


# --- writing what is not there yet -----------------------------------------------------------------------------------


def lines(events: Sequence[Recorded], codec: Codec) -> Iterator[Line]:
    for one in events:
        assert not isinstance(one.event, Unknown)
        name, schema, data = _encoded(one.event, codec)
        yield Line(
            one.position, one.stream, one.version, name, schema, data, one.cluster, one.caused_by, one.recorded_at
        )


def played() -> Iterator[tuple[str, Any]]:
    """Play the seeds; their logs and databases."""
    for seed in (5, 23):
        with hushed():
            run = WorkloadRun(plan_of(seed))
            run.play()
        yield f"workloads-{seed}", run.database
        run.close()
    for seed in (3,):
        with hushed():
            both = CandidateRun(plan_of(seed, scene="candidates"))
            both.play()
        for name, database in both.databases.items():
            yield f"{'source' if name == 'source' else 'target'}-{name}{seed}", database
        both.close()
    for seed in (2,):
        with hushed():
            own = LocalRun(plan_of(seed, scene="local"))
            own.play()
        yield f"local-{seed}", own.databases[local.CONTROLLERS]
        yield f"local-scheduler-{seed}", own.databases[local.SCHEDULER]
        own.close()


def main() -> None:
    """Write what is not there yet."""
    FOLDER.mkdir(exist_ok=True)
    for name, database in played():
        file = FOLDER / f"{name}.jsonl"
        if not file.exists():
            rows = lines(database.read(0, 100_000), database.codec)
            file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        found = FOLDER / f"{name}.json"
        if not found.exists():
            found.write_text(text(consequences(name)))


if __name__ == "__main__":
    main()
