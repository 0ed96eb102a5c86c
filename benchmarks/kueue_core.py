"""Kueue's core and the job controllers of several clusters, played by one process: who submits, reserves quota, admits
and runs, as far as MultiKueue waits for it.

In: for how many seconds Jobs run, and kubeconfigs, as JSON on the first line of stdin; then one JSON command a line:
how many Jobs to create, how many a second (0: all at once). Out: one JSON answer a line. It does nothing on its own:
no retries, no quota. Every write is an apply under a manager of its own, or a patch of what nobody else writes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from benchmarks.api_servers import transport
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery, WatchQuery
from controlplane.clusters.transport import Transport
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import APPLY_PATCH, JOBS, WORKLOADS, Json, Kind, ObjectRef, Request

IDENTITY = "kueue-core"
MANAGEMENT = "management"
CHECK = "multikueue"
_SPACE = "default"
_REQUESTS = {"requests": {"cpu": "1"}}
_TEMPLATE: Json = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", "resources": _REQUESTS}]}
}
_ADMISSION = {
    "clusterQueue": "cluster-queue",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}],
}
_Seen = Callable[[Json], Awaitable[None]]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _true(kind: str, reason: str, message: str = "") -> Json:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": _now()}


class Core:
    """Whoever acts in one cluster beside MultiKueue. What it did once it does not do again."""

    def __init__(self, server: Transport, runs_for: float) -> None:
        self._server, self._runs_for = server, runs_for
        self._did: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.finished: set[str] = set()
        self.left: set[str] = set()

    def watched(self) -> list[tuple[Kind, _Seen]]:
        """Return what is watched, and what is done about it."""
        if self._server.name == MANAGEMENT:
            return [(JOBS, self._submitted), (WORKLOADS, self._checked)]
        return [(WORKLOADS, self._cloned), (JOBS, self._copied)]

    async def watch(self, kind: Kind, seen: _Seen, ready: asyncio.Event) -> None:
        """Show every object of a kind to `seen`, each in a task of its own, until cancelled."""
        page = await self._server.list(ListQuery(kind))
        version = page.resource_version
        ready.set()
        while True:
            query = WatchQuery(kind, version, timeout_seconds=3600, idle_timeout=3600)
            async for lines in self._server.watch(query):
                for line in lines:
                    change = orjson.loads(line)
                    version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        self._note(kind, change)
                        if change["type"] != "DELETED":
                            self._begin(seen(change["object"]))

    def _note(self, kind: Kind, change: Json) -> None:
        key = f"{kind.plural}/{change['object']['metadata']['name']}"
        if change["type"] == "DELETED":
            self.left.discard(key)
            return
        self.left.add(key)
        if kind is WORKLOADS and is_true(change["object"], "Finished"):
            self.finished.add(key)

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _first(self, what: str, obj: Json) -> bool:
        key = (what, obj["metadata"]["uid"])
        found = key not in self._did
        self._did.add(key)
        return found

    async def _apply(self, name: str, status: Json, manager: str) -> None:
        body = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "status": status}
        body["metadata"] = {"name": name, "namespace": _SPACE}
        ref = ObjectRef(WORKLOADS, _SPACE, name)
        request = Request("patch", ref, body, "status", content_type=APPLY_PATCH, field_manager=manager)
        with contextlib.suppress(ApiError):  # it was deleted meanwhile: a clone that lost
            await self._server.write(request)

    async def _job(self, name: str, body: Json, subresource: str = "") -> None:
        with contextlib.suppress(ApiError):
            await self._server.write(Request("patch", ObjectRef(JOBS, _SPACE, name), body, subresource))

    # --- management ------------------------------------------------------------------------------------------------

    async def _submitted(self, job: Json) -> None:
        if not self._first("workload", job):
            return
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        spec = {
            "queueName": "user-queue",
            "priority": 0,
            "podSets": [{"name": "main", "count": 1, "template": _TEMPLATE}],
        }
        body = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "spec": spec}
        body["metadata"] = {
            "name": f"job-{name}",
            "namespace": _SPACE,
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "ownerReferences": [owner],
        }
        await self._server.create(WORKLOADS, _SPACE, body)
        check = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": _now()}
        reserved = {"admission": _ADMISSION, "conditions": [_true("QuotaReserved", "QuotaReserved")]}
        await self._apply(f"job-{name}", reserved | {"admissionChecks": [check]}, "kueue-admission")

    async def _checked(self, workload: Json) -> None:
        checks = workload.get("status", {}).get("admissionChecks", [])
        if not checks or checks[0]["state"] != "Ready" or not self._first("admitted", workload):
            return
        name = workload["metadata"]["name"]
        await self._apply(name, {"conditions": [_true("Admitted", "Admitted")]}, "kueue-core")
        await self._job(name.removeprefix("job-"), {"spec": {"suspend": False}})

    # --- workers ---------------------------------------------------------------------------------------------------

    async def _cloned(self, workload: Json) -> None:
        if self._first("admitted", workload):
            admitted = [_true("QuotaReserved", "QuotaReserved"), _true("Admitted", "Admitted")]
            await self._apply(
                workload["metadata"]["name"], {"admission": _ADMISSION, "conditions": admitted}, "kueue-admission"
            )

    async def _copied(self, job: Json) -> None:
        if not self._first("run", job):
            return
        name = job["metadata"]["name"]
        await self._job(name, {"spec": {"suspend": False}})
        await self._job(name, {"status": {"startTime": _now(), "active": 1, "ready": 1}}, "status")
        await asyncio.sleep(self._runs_for)
        conditions = [_true("SuccessCriteriaMet", "CompletionsReached"), _true("Complete", "CompletionsReached")]
        ended: Json = {
            "active": None,
            "ready": 0,
            "succeeded": 1,
            "uncountedTerminatedPods": {},
            "completionTime": _now(),
        }
        await self._job(name, {"status": ended | {"conditions": conditions}}, "status")
        finished = [_true("Finished", "Succeeded", "Job finished successfully")]
        await self._apply(f"job-{name}", {"conditions": finished}, "kueue-core")

    # --- users -----------------------------------------------------------------------------------------------------

    async def submit(self, first: int, count: int, rate: float) -> None:
        """Create Jobs on the management cluster: `rate` a second, or as fast as it takes them."""
        loop = asyncio.get_running_loop()
        begun, limit = loop.time(), asyncio.Semaphore(16)

        async def create(number: int) -> None:
            async with limit:
                await self._server.create(JOBS, _SPACE, _new_job(number))

        async with asyncio.TaskGroup() as group:
            for place in range(count):
                if rate:
                    await asyncio.sleep(max(0.0, begun + place / rate - loop.time()))
                group.create_task(create(first + place))


def _new_job(number: int) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "template": _TEMPLATE}
    metadata = {"name": f"train-{number:06}", "namespace": _SPACE, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    given = orjson.loads(await reader.readline())
    servers = {name: transport(name, text, IDENTITY) for name, text in given["kubeconfigs"].items()}
    cores = {name: Core(server, given["runs_for"]) for name, server in servers.items()}
    readies, watches = [], []
    for core in cores.values():
        for kind, seen in core.watched():
            readies.append(asyncio.Event())
            watches.append(asyncio.create_task(core.watch(kind, seen, readies[-1])))
    await asyncio.gather(*(ready.wait() for ready in readies))
    _say({})
    while line := await reader.readline():
        command = orjson.loads(line)
        if command.pop("do") == "submit":
            await cores[MANAGEMENT].submit(**command)
        left = sum(len(core.left) for name, core in cores.items() if name != MANAGEMENT)
        _say({"finished": len(cores[MANAGEMENT].finished), "left": left})
    for watch in watches:
        watch.cancel()
    for server in servers.values():
        await server.close()


def _say(answer: Json) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(_main())
