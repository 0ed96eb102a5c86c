"""PipelineRuns under Kueue: an external framework, which makes their Workloads as tekton-kueue does beside a real
Kueue.

In: PipelineRuns with a queue name. Out: a run is created pending, gets a Workload, starts when that is admitted, and is
stopped for good when it is evicted: Tekton lets no run wait again that has begun. On a worker a run may name a Workload
that was made beforehand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from controlplane.job_kinds.pipelinerun import PENDING, PipelineRun
from controlplane.kube.kinds import PIPELINE_RUNS, WORKLOADS, Json, Kind, meta
from controlplane.kube.kueue_names import MULTIKUEUE, QUEUE_LABEL
from controlplane.simulation.apiserver.store import Operation
from controlplane.simulation.controllers.behaviour import Behaviour, Key
from controlplane.simulation.kueue.cluster import Kueue
from controlplane.simulation.kueue.jobs import JobReconciler
from controlplane.simulation.kueue.manager import KueueManager
from controlplane.simulation.kueue.worker import bind_prebuilt


class _AsKueueSeesIt(PipelineRun):
    """A run that was stopped does not wait: it can never start."""

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is pending."""
        return bool(job["spec"].get("status") == PENDING)


class PipelineRunFramework(Behaviour):
    """The framework beside one cluster's Kueue, whose view it shares."""

    def __init__(self, name: str, kueue: Kueue) -> None:
        super().__init__(name, kueue.clock)
        self._kueue = kueue
        self._core = dataclasses.replace(kueue.core, enqueue=self.enqueue, enqueue_after=self.enqueue_after)
        self._integration = _AsKueueSeesIt()
        self._runs = JobReconciler(self._core, self._bind, {PIPELINE_RUNS: self._integration})
        kueue.view.listen(self._on_change)
        kueue.view.store.admission.append(self._admit)

    def reconcile(self, key: Key) -> float | None:
        """Take a run one step on."""
        self._runs.reconcile(*key)
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == WORKLOADS:
            for key in self._runs.on_workload(old, new):
                self.enqueue(key)
        elif kind == PIPELINE_RUNS:
            self.enqueue(self._runs.on_job(kind, old, new))

    def _bind(self, kind: Kind, job: Json, name: str) -> Json | None:
        if isinstance(self._kueue, KueueManager):
            return None
        return bind_prebuilt(self._core, self._runs, kind, job, name)

    def _admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        """Let a run with a queue name wait from its creation; on the manager, for MultiKueue if its queue leads
        there.
        """
        if operation != "create" or new is None or kind != PIPELINE_RUNS:
            return
        queue = (meta(new).get("labels") or {}).get(QUEUE_LABEL)
        if not queue:
            return
        new["spec"]["status"] = PENDING
        if self._is_for_multikueue(meta(new).get("namespace") or "", queue) and not new["spec"].get("managedBy"):
            new["spec"]["managedBy"] = MULTIKUEUE

    def _is_for_multikueue(self, namespace: str, queue: str) -> bool:
        manager = self._kueue
        return (
            isinstance(manager, KueueManager)
            and manager.gates.multikueue
            and manager.leads_to_multikueue(namespace, queue)
        )
