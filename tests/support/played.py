"""Logs that the simulation wrote, of which several tests look at the same.

In: a plan. Out: the log that it leaves. A plan is played once for one state of the source, and its log kept in pytest's
own cache: there the other processes of the run, and the next run, read it, which takes a hundredth of the time. What is
kept is told by all that a log follows from, so nothing has to be thrown away by hand. Whoever plays with something
patched must not keep it: `WorkloadRun` is for that."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

import controlplane
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.quota.controller import QuotaController
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome, simulate
from controlplane.dst.scenes.admission.run import AdmissionRun
from controlplane.dst.scenes.workloads.processes import types_of
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.kube.quantities import NANO, nanos
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.router import merged
from controlplane.settings.quota import BUILTIN
from tests.support import cache

_LOCK = Path(__file__).parents[2] / "requirements-dev.lock"


class PlayedLog(list[Recorded]):
    """The events of a log, what its Workloads ask for, by stream, and the rule that was broken ("": none)."""

    requests: dict[str, dict[str, float]]
    violation: str


def log_of(plan: Plan, place: Path | None = None) -> PlayedLog:
    """Return the log that a plan leaves, from where logs are kept (`place`, else what the run has) if it is there."""
    file = _file(plan, place)
    found = _read(file) if file is not None else None
    return found if found is not None else simulated(plan, place)[1]


def simulated(plan: Plan, place: Path | None = None) -> tuple[Outcome, PlayedLog]:
    """Play a plan, in any case; return how it ended, and its log, which is kept."""
    runs: list[WorkloadRun] = []

    def run(plan: Plan) -> WorkloadRun:
        runs.append(AdmissionRun(plan) if plan.scene == "admission" else WorkloadRun(plan))
        return runs[-1]

    outcome = simulate(plan, run)
    database = runs[0].database
    found = PlayedLog(database.read(0, 1_000_000))
    found.requests = requests_of(found, database.store.texts)
    found.violation = "" if outcome.violation is None else str(outcome.violation)
    file = _file(plan, place)
    if file is not None:
        _write(file, found)
    return outcome, found


def requests_of(events: Iterable[Recorded], texts: Mapping[str, bytes]) -> dict[str, dict[str, float]]:
    """Return what Workloads ask for, as their specs say."""
    found: dict[str, dict[str, float]] = {}
    for one in events:
        if not isinstance(one.event, WorkloadObserved):
            continue
        stored = str(one.event.kept.get("template", one.event.template))
        if stored in texts:
            spec = msgspec.json.decode(texts[stored])["spec"]
            asks: Counter[str] = Counter()
            for pods in spec["podSets"]:
                for container in pods["template"]["spec"]["containers"]:
                    for name, amount in container.get("resources", {}).get("requests", {}).items():
                        asks[name] += int(pods["count"]) * nanos(amount) / NANO  # type: ignore[assignment]
            found[one.stream] = dict(asks)
    return found


# --- how a log is kept -----------------------------------------------------------------------------------------------


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An event of a log; `data` as the codec writes it."""

    position: int
    stream: str
    version: int
    type: str
    schema: int
    data: msgspec.Raw
    cluster: str
    caused_by: int
    trace: str
    observed_at: datetime | None
    recorded_at: datetime


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[_Row]
    requests: dict[str, dict[str, float]]
    violation: str


@functools.cache
def _codec() -> Codec:
    return Codec(merged([types_of([BUILTIN]), QuotaController.types]))


@functools.cache
def _source() -> str:
    """Return a digest of all that the log of a plan follows from: the program, this module, and what runs them."""
    folder, digest = Path(controlplane.__file__).parent, hashlib.sha256(sys.version.encode())
    sources = (path for path in folder.rglob("*") if "__pycache__" not in path.parts and path.is_file())
    for path in [Path(__file__), _LOCK, *sorted(sources)]:
        digest.update(f"{os.path.relpath(path, folder)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _file(plan: Plan, place: Path | None) -> Path | None:
    place = place or cache.place("played")
    if place is None:
        return None
    return place / _source() / hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:32]


def _read(file: Path) -> PlayedLog | None:
    """Return the log in a file; None if there is none, or not a whole one."""
    try:
        kept = msgspec.json.decode(zlib.decompress(file.read_bytes()), type=_Kept)
    except (OSError, zlib.error, msgspec.MsgspecError):
        return None
    found = PlayedLog()
    for row in kept.rows:
        event = _codec().decode(row.type, row.schema, bytes(row.data))
        if isinstance(event, Unknown):
            return None
        found.append(
            Recorded(
                position=row.position,
                stream=row.stream,
                version=row.version,
                event=event,
                cluster=row.cluster,
                caused_by=row.caused_by,
                trace=row.trace,
                observed_at=row.observed_at,
                recorded_at=row.recorded_at,
            )
        )
    found.requests, found.violation = kept.requests, kept.violation
    return found


def _write(file: Path, log: PlayedLog) -> None:
    """Keep a log, whole or not at all."""
    rows = []
    for one in log:
        if isinstance(one.event, Unknown):
            return
        kind, schema, data = _codec().encode(one.event)
        told = (one.cluster, one.caused_by, one.trace, one.observed_at, one.recorded_at)
        rows.append(_Row(one.position, one.stream, one.version, kind, schema, msgspec.Raw(data), *told))
    text = zlib.compress(msgspec.json.encode(_Kept(rows, log.requests, log.violation)), 1)
    try:
        _made(file.parent)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
            written.write(text)
        Path(written.name).replace(file)
    except OSError:  # no room: then it is played again
        return


def _made(folder: Path) -> None:
    """Make the folder of this source's logs; those of another source are of no use any more."""
    if not folder.exists():
        for other in folder.parent.glob("*"):
            shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
