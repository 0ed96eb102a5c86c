"""A `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet: groups of a leader and its workers, each with a Workload of its own
(kubernetes-sigs/kueue pkg/controller/jobs/leaderworkerset/leaderworkerset_multikueue_adapter.go,
leaderworkerset_reconciler.go, leaderworkerset_webhook.go, ff69552e).

There is one copy for all of its Workloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.job_kinds.base import PodSet
from controlplane.job_kinds.gated import GatedSet
from controlplane.job_kinds.generic_job import topology_request
from controlplane.kube.fields import BadValue, section
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_UID, PREBUILT
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.topologies import POD_INDEX_OFFSET, POD_SET_GROUP

_MOST = 1_000_000  # Kueue's own limit
_LONGEST, _HASH = 253, 5
DOMAIN = "leaderworkerset.sigs.k8s.io"
SET_NAME, GROUP_INDEX = f"{DOMAIN}/name", f"{DOMAIN}/group-index"
LEADER_NAME = f"{DOMAIN}/leader-name"
"""The annotation of the pods that have a leader."""
_SERVING = "kueue.x-k8s.io/pod-group-serving"


class LeaderWorkerSet(GatedSet):
    """A LeaderWorkerSet."""

    integration = "leaderworkerset.x-k8s.io/leaderworkerset"
    kind = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
    composed = True
    main = "workerTemplate"
    counts = ("readyReplicas", "updatedReplicas")
    grouped = True
    index_label = f"{DOMAIN}/worker-index"
    template_notes: ClassVar[Mapping[str, str]] = {_SERVING: "true"}

    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return those of its templates; leaders are made like workers where they have none."""
        found = _templates(job)
        names = ("leaderTemplate", self.main) if found.get("leaderTemplate") else (self.main,)
        return {name: (found.get(name) or {}).get("spec") or {} for name in names}

    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return the templates with their gates."""
        return {"leaderWorkerTemplate": {name: {"spec": {"schedulingGates": one}} for name, one in gates.items()}}

    def pod_templates(self, job: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return those of leaders, if there is one, and of workers."""
        names = ("leaderTemplate", self.main) if _templates(job).get("leaderTemplate") is not None else (self.main,)
        return [("leaderWorkerTemplate", name) for name in names]

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return it with what its pods are made with; where there are leaders, the ranks of workers begin with 1."""
        made = super().submitted(job)
        templates = _templates(made)
        if templates.get("leaderTemplate") is None:
            return made
        worker = templates[self.main]
        notes = meta(worker)["annotations"]
        if POD_SET_GROUP not in notes:
            metadata = {**meta(worker), "annotations": {**notes, POD_INDEX_OFFSET: "1"}}
            inner = {**templates, self.main: {**worker, "metadata": metadata}}
            made = {**made, "spec": {**made["spec"], "leaderWorkerTemplate": inner}}
        return made

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets of one group."""
        made = []
        for one, template in zip(self.pods(job), self.templates(job), strict=True):
            index = "" if one.name == "leader" else self.index_label
            found = {"name": one.name, "count": one.pods, "template": stored_template(_without_own(template))}
            if request := topology_request(template, index, "", None):
                found["topologyRequest"] = request
            made.append(found)
        return made

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


def _without_own(template: Json) -> Json:
    """Return a template without the labels and annotations that are its own controller's, but for the set's name."""
    metadata = {
        field: {name: one for name, one in value.items() if name == SET_NAME or not name.startswith(DOMAIN)}
        if field in ("labels", "annotations")
        else value
        for field, value in meta(template).items()
    }
    return {**template, "metadata": metadata}
