"""How long the answer takes why a Workload waits for quota, where this service decides on it, and when it would get it.

In: how many Workloads wait in the same Cohort tree, and how many have ended. Their events are those that admission
records: the objects as it observes them, a decision of the engine for each. Out: seconds, processor seconds and memory
of the parts of the answer in this process, and of `controlplane why` as a whole."""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import psycopg

from benchmarks.machine import database, show
from benchmarks.quota import workload
from controlplane.audit import quota_estimate, quota_load, quota_runs
from controlplane.audit.reads import LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.facts import by_flavor
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.requests import timestamp
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent
from controlplane.log.schema import libpq_url
from controlplane.runtime.controller import ObjectChange

QUEUES = 10
HOLDERS = 40  # in each queue
RUN_FOR = timedelta(hours=2)
_NS = "ns"
_T = TypeVar("_T")
_Row = tuple[str, int, Event, str, datetime]
_COPY = (
    "COPY controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, recorded_at) "
    "FROM STDIN"
)


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    async with database(args.folder) as url:
        made = _History(args.why_waiting, args.why_ended)
        count = _written(url, made.rows())
        rows = [_measured(url, made.asked, args.repeat), _command(url, made.asked, args.repeat)]
    title = f"why: {args.why_waiting:,} wait in one Cohort tree, {args.why_ended:,} have ended, {count:,} events"
    columns = ["", "seconds", "processor s", "read and fold", "explain", "durations", "estimate"]
    show(title, columns, rows)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


class _History:
    """The events of a tree: first those that have ended, then who has quota, then who waits. `asked`: one in the
    middle."""

    def __init__(self, waiting: int, ended: int) -> None:
        self.waiting, self.ended = waiting, ended
        self.asked = f"w{waiting // 2}"
        self.controller = AdmissionController(EngineSettings(), "benchmark")
        self.versions: dict[str, int] = {}
        self.chance = random.Random(waiting)
        self.now = datetime.now(UTC).replace(microsecond=0) - timedelta(days=7)

    def rows(self) -> Iterator[_Row]:
        """Yield stream, version, event, reason and moment."""
        for n in range(QUEUES):
            yield self._seen(kinds.CLUSTER_QUEUES, _cluster_queue(n))
            yield self._seen(kinds.LOCAL_QUEUES, _object(f"lq{n}", {"clusterQueue": f"q{n}"}, _NS))
        yield self._seen(kinds.RESOURCE_FLAVORS, _object("default", {}))
        yield self._seen(kinds.NAMESPACES, _object(_NS, None))
        step = timedelta(days=6) / (self.ended + 1)
        for n in range(self.ended):
            self.now += step
            yield from self._held(f"e-{n}", n, ends=True)
        for n in range(QUEUES * HOLDERS):
            yield from self._held(f"h-{n}", n, ends=False)
        for n in range(self.waiting):
            yield from self._waits(f"w{n}", n)

    def _held(self, name: str, n: int, *, ends: bool) -> Iterator[_Row]:
        obj = self._workload(name, n)
        yield self._seen(kinds.WORKLOADS, obj)
        given = _given(obj)
        amounts = by_flavor({("default", "cpu"): int(given["cpu"]) * 1000})
        admission = {"clusterQueue": f"q{n % QUEUES}", "podSetAssignments": [_assignment(obj, given)]}
        stream = f"admission/workload/{_NS}/{name}"
        yield self._decided(
            stream,
            events.QuotaReservationDecided(
                reason=AdmissionReason.QUOTA_FITS,
                cycle=n + 1,
                cluster_queue=f"q{n % QUEUES}",
                admission=admission,
                amounts=amounts,
                uid=name,
                resource_version="1",
            ),
        )
        obj["status"] = {
            "admission": admission,
            "conditions": [_condition("QuotaReserved", "True", "QuotaReserved", "", self.now)],
        }
        obj["metadata"]["resourceVersion"] = "2"
        yield self._seen(kinds.WORKLOADS, obj)
        if ends:
            later = RUN_FOR * self.chance.lognormvariate(0, 0.5)
            obj["status"]["conditions"].append(
                _condition("Finished", "True", "Succeeded", "Job finished", self.now + later)
            )
            obj["metadata"]["resourceVersion"] = "3"
            yield self._seen(kinds.WORKLOADS, obj, later)
            back = {"default": {"cpu": -amounts["default"]["cpu"]}}
            posted = events.QuotaPosted(
                reason=AdmissionReason.WORKLOAD_FINISHED, cluster_queue=f"q{n % QUEUES}", amounts=back
            )
            yield self._decided(stream, posted, later)

    def _waits(self, name: str, n: int) -> Iterator[_Row]:
        obj = self._workload(name, n)
        yield self._seen(kinds.WORKLOADS, obj)
        message = (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
            f"{1 + n % 7} more needed"
        )
        waits = events.WorkloadInadmissible(
            reason=AdmissionReason.QUOTA_DOES_NOT_FIT,
            uid=name,
            resource_version="1",
            cycle=n + 1,
            cluster_queue=f"q{n % QUEUES}",
            why=reasons.WAITING_FOR_QUOTA,
            message=message,
            requeue=reasons.NO_FIT,
            written=True,
        )
        yield self._decided(f"admission/workload/{_NS}/{name}", waits)
        obj["status"] = {
            "conditions": [_condition("QuotaReserved", "False", reasons.WAITING_FOR_QUOTA, message, self.now)]
        }
        obj["metadata"]["resourceVersion"] = "2"
        yield self._seen(kinds.WORKLOADS, obj)

    def _workload(self, name: str, n: int) -> Json:
        obj = workload(name, n % QUEUES, self.chance)
        obj["metadata"] |= {"creationTimestamp": timestamp(self.now), "resourceVersion": "1"}
        return obj

    def _seen(self, kind: Kind, obj: Json, later: timedelta = timedelta()) -> _Row:
        change = ObjectChange(MANAGEMENT, "one", kind, obj, obj["metadata"].get("resourceVersion", "1"), False)
        new = self.controller.observe(change, self.now)
        assert isinstance(new, NewEvent), f"{kind.name} is recorded"
        return self._row(new.stream, new.event, "", later)

    def _decided(self, stream: str, event: events.AdmissionDecision, later: timedelta = timedelta()) -> _Row:
        return self._row(stream, event, event.reason.value, later)

    def _row(self, stream: str, event: Event, reason: str, later: timedelta) -> _Row:
        self.versions[stream] = self.versions.get(stream, 0) + 1
        return stream, self.versions[stream], event, reason, self.now + later


def _cluster_queue(n: int) -> Json:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "200"), ("memory", "2000Gi"))]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]}
    return _object(f"q{n}", {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": [group]})


def _object(name: str, spec: Json | None, namespace: str = "") -> Json:
    place = {"namespace": namespace} if namespace else {}
    found: Json = {"metadata": {"name": name, "uid": name, "resourceVersion": "1", "generation": 1, **place}}
    return found if spec is None else {**found, "spec": spec}


def _given(obj: Json) -> dict[str, str]:
    wanted = obj["spec"]["podSets"][0]
    asked, count = wanted["template"]["spec"]["containers"][0]["resources"]["requests"], wanted["count"]
    return {"cpu": str(int(asked["cpu"]) * count), "memory": f"{int(asked['memory'][:-2]) * count}Gi"}


def _assignment(obj: Json, given: dict[str, str]) -> Json:
    count = obj["spec"]["podSets"][0]["count"]
    return {"name": "main", "count": count, "flavors": dict.fromkeys(given, "default"), "resourceUsage": given}


def _condition(type_: str, status: str, reason: str, message: str, at: datetime) -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": timestamp(at)}


def _written(url: str, made: Iterable[_Row]) -> int:
    """Write events into an empty log; return how many there are."""
    codec, position = Codec(AdmissionController.types), 0
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        with connection.transaction(), connection.cursor().copy(_COPY) as copy:
            for stream, version, event, reason, at in made:
                position += 1
                name, schema, data = codec.encode(event)
                row = ("main", position, stream, version, name, schema, data.decode(), reason, MANAGEMENT, at)
                copy.write_row(row)
        connection.execute(
            "INSERT INTO controlplane.streams (log, stream, version)"
            " SELECT log, stream, max(version) FROM controlplane.events GROUP BY log, stream ON CONFLICT DO NOTHING"
        )
        connection.execute(
            "INSERT INTO controlplane.log_head (log, position) VALUES ('main', %(position)s)"
            " ON CONFLICT (log) DO UPDATE SET position = excluded.position",
            {"position": position},
        )
        connection.execute("VACUUM ANALYZE controlplane.events, controlplane.streams")
    return position


def _measured(url: str, name: str, repeat: int) -> list[object]:
    """Return the seconds of the answer and of its parts, made in this process; of several the quickest."""
    found = min(_once(url, name) for _ in range(repeat))
    return ["the answer, in this process", found[0], found[1], *found[2]]


def _once(url: str, name: str) -> tuple[float, float, list[float]]:
    now = datetime.now(UTC)
    processor, parts = time.process_time(), []

    def timed(what: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        found = what()
        parts.append(time.perf_counter() - started)
        return found

    with LogReader.connect(url) as reader:
        index = timed(lambda: quota_load.load(reader, EngineSettings(), _NS, name))
        assert index is not None
        wait = timed(lambda: explain(index.engine, f"{_NS}/{name}", now.timestamp()))
        assert wait is not None, "it waits"
        durations = timed(lambda: quota_runs.recorded(reader))
        timed(lambda: quota_estimate.estimate(index, durations, f"{_NS}/{name}", wait, now))
    return sum(parts), time.process_time() - processor, parts


def _command(url: str, name: str, repeat: int) -> list[object]:
    seconds = []
    for _ in range(repeat):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        said = [sys.executable, "-m", "controlplane", "why", f"{_NS}/{name}"]
        subprocess.run(said, check=True, capture_output=True, env={**os.environ, "CONTROLPLANE_DATABASE_URL": url})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds.append((time.perf_counter() - started, used))
    return ["controlplane why, a process", *min(seconds), "", "", "", ""]
