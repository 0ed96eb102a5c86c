"""One simulated cluster in a process of its own, so that what it costs is not counted as the service's.

In: its role, its name, for how many seconds its Jobs run and how many MultiKueueConfigs there are as arguments, then
one JSON command a line on stdin. Out: one JSON answer a line on stdout, the first with the way to reach it. It ends
with its stdin."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from datetime import timedelta
from typing import Any

import orjson
import yaml

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
    WORKLOADS,
    Json,
)
from controlplane.simulation.controllers.jobs import JobPace
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import CHECK, KUEUE_NAMESPACE, ClusterSpec, World, secret_name

ROOM = {"cpu": "1000000", "memory": "1000000Gi"}


class Cluster:
    """The management cluster, or the worker `name`, and what it can be told to do."""

    def __init__(self, name: str, runs_for: timedelta, configs: int, *, manages: bool) -> None:
        spec = ClusterSpec(quota=ROOM, pace=JobPace(duration=runs_for))
        # A worker's world has a management cluster as well; nobody talks to it.
        self._world = World(spec, {}) if manages else World(ClusterSpec(), {name: spec})
        self._cluster = self._world.management if manages else self._world.workers[name]
        self._configs, self._started = configs, 0.0

    async def serve(self) -> None:
        """Answer commands until stdin ends."""
        await self._world.start()
        for number in range(1, self._configs):
            self._add_queues(number)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**24)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._say({"kubeconfig": yaml.safe_dump(self._cluster.server.kubeconfig(), sort_keys=False)})
        try:
            while line := await reader.readline():
                command = orjson.loads(line)
                self._say(getattr(self, command.pop("do"))(**command) or {})
        finally:
            await self._world.stop()

    def workers(self, kubeconfigs: dict[str, str]) -> None:
        """Set up the workers, as an administrator would."""
        store = self._cluster.store
        for name, text in kubeconfigs.items():
            data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
            ensure(store, SECRETS, secret_name(name), KUEUE_NAMESPACE, type="Opaque", data=data)
            source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
            ensure(store, MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})
        names = list(kubeconfigs)
        for number in range(self._configs):
            store.patch(
                MULTIKUEUE_CONFIGS, "", numbered(CHECK, number), {"spec": {"clusters": names[number :: self._configs]}}
            )

    def _add_queues(self, number: int) -> None:
        """Create one more ClusterQueue with its LocalQueue, on the management cluster with a check and a configuration
        of their own.
        """
        store, spec = self._cluster.store, self._cluster.spec
        queue = store.get(CLUSTER_QUEUES, "", spec.cluster_queue)["spec"]
        check = numbered(CHECK, number)
        if "admissionChecksStrategy" in queue:
            parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": check}
            config = store.get(ADMISSION_CHECKS, "", CHECK)["spec"]
            ensure(store, MULTIKUEUE_CONFIGS, check, spec={"clusters": []})
            ensure(store, ADMISSION_CHECKS, check, spec={**config, "parameters": parameters})
            queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
        ensure(store, CLUSTER_QUEUES, numbered(spec.cluster_queue, number), spec=queue)
        ensure(
            store,
            LOCAL_QUEUES,
            numbered(spec.local_queue, number),
            "default",
            spec={"clusterQueue": numbered(spec.cluster_queue, number)},
        )

    def jobs(self, count: int, first: int = 0) -> None:
        """Create Jobs, and begin to count requests."""
        self.reset()
        for number in range(first, first + count):
            queue = numbered(self._cluster.spec.local_queue, number % self._configs)
            self._cluster.store.create(JOBS, _job(number, queue))

    def reset(self) -> None:
        """Begin to count requests."""
        self._cluster.server.counts.clear()
        self._cluster.server.watches.clear()
        self._started = time.process_time()

    def state(self) -> Json:
        """Return how many Workloads are finished, how many objects there are, the requests so far, and processor
        seconds.
        """
        store, server = self._cluster.store, self._cluster.server
        workloads, _ = store.list(WORKLOADS)
        jobs, _ = store.list(JOBS)
        return {
            "finished": sum(is_true(workload, "Finished") for workload in workloads),
            "objects": len(workloads) + len(jobs),
            "requests": [[*key, count] for key, count in server.counts.items()],
            "watches": sum(server.watches.values()),
            "cpu": time.process_time() - self._started,
        }

    def _say(self, answer: Json) -> None:
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()


def numbered(name: str, number: int) -> str:
    """Return the name of an object of the further configuration `number`; of the first one it is the usual name."""
    return f"{name}-{number}" if number else name


def _job(number: int, queue: str) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"train-{number:06}", "namespace": "default", "labels": labels},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "template": template,
        },
    }


if __name__ == "__main__":
    asyncio.run(
        Cluster(
            sys.argv[2], timedelta(seconds=float(sys.argv[3])), int(sys.argv[4]), manages=sys.argv[1] == "management"
        ).serve()
    )
