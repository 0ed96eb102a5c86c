"""A `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet: groups of a leader and its workers, each with a Workload of its own
(kubernetes-sigs/kueue pkg/controller/jobs/leaderworkerset/leaderworkerset_multikueue_adapter.go,
leaderworkerset_reconciler.go, ff69552e).

There is one copy for all of its Workloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import ORIGIN_UID, PREBUILT, PodSet
from controlplane.job_kinds.gated import GatedSet
from controlplane.kube.fields import BadValue, section
from controlplane.kube.kinds import Json, Kind, meta

_MOST = 1_000_000  # Kueue's own limit
_LONGEST, _HASH = 253, 5


class LeaderWorkerSet(GatedSet):
    """A LeaderWorkerSet."""

    integration = "leaderworkerset.x-k8s.io/leaderworkerset"
    kind = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
    composed = True
    main = "workerTemplate"
    counts = ("readyReplicas", "updatedReplicas")

    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return those of its templates; leaders are made like workers where they have none."""
        found = _templates(job)
        names = ("leaderTemplate", self.main) if found.get("leaderTemplate") else (self.main,)
        return {name: (found.get(name) or {}).get("spec") or {} for name in names}

    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return the templates with their gates."""
        return {"leaderWorkerTemplate": {name: {"spec": {"schedulingGates": one}} for name, one in gates.items()}}

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the copy, which is bound to no Workload: it has several."""
        made = super().clone(template, namespace, name, workload, origin)
        del made["metadata"]["annotations"][PREBUILT]
        return made

    def components(self, job: Mapping[str, Any]) -> int:
        """Return how many Workloads it has: one for each replica."""
        found = (job.get("spec") or {}).get("replicas")
        replicas = 1 if found is None else int(found)
        if not 0 <= replicas <= _MOST:
            raise BadValue("spec.replicas", f"{replicas} is not between 0 and {_MOST}")
        return replicas

    def shared(self, job: Mapping[str, Any]) -> tuple[str, str]:
        """Return the UID of the user's LeaderWorkerSet, and the Workload of its first replica."""
        origin = str(section(meta(job), "annotations").get(ORIGIN_UID) or "")
        return origin, workload_name(self.kind, str(meta(job)["name"]), origin, 0) if origin else ""

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the pod sets of one group."""
        found, place = _templates(job), ("spec", "leaderWorkerTemplate")
        size = found.get("size")
        pods = 1 if size is None else int(size)
        if not found.get("leaderTemplate"):
            return [PodSet("main", pods, (*place, "workerTemplate"))]
        return [PodSet("leader", 1, (*place, "leaderTemplate")), PodSet("worker", pods - 1, (*place, "workerTemplate"))]


def workload_name(kind: Kind, name: str, uid: str, index: int) -> str:
    """Return the name that Kueue gives to the Workload of a replica (`GetWorkloadName` in kubernetes-sigs/kueue
    pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go, pkg/controller/jobframework/workload_names.go,
    ff69552e)."""
    owner = f"{name}-{index}"
    digest = hashlib.sha1(f"{kind.kind}\n{kind.group}\n{owner}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.kind.lower()}-{owner}'[: _LONGEST - 1 - _HASH]}-{digest[:_HASH]}"


def _templates(job: Mapping[str, Any]) -> Json:
    found: Json = (job.get("spec") or {}).get("leaderWorkerTemplate") or {}
    return found
