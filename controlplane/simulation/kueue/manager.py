"""Kueue's core on the management cluster: what a controller that dispatches Workloads to workers finds around it.

In: jobs with a queue name, and that controller's writes (nominations, the check's state, the cluster's name, mirrored
job statuses). Out: Workloads with quota and a Pending check, admission once the check is Ready, eviction on Retry,
deactivation on Rejected, and the release of quota once the mirrored status says that nothing runs any more. MultiKueue
itself is not here: that is whoever is being tested.

With `Gates(multikueue=True)` jobs whose queue leads to a MultiKueue check get `spec.managedBy` at their creation, as
Kueue's webhooks do; with the gate off, users or a webhook of the dispatching controller have to.
"""

from __future__ import annotations

from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.kinds import ADMISSION_CHECKS, LOCAL_QUEUES, Json, Kind, meta
from controlplane.kube.kueue_names import MULTIKUEUE, QUEUE_LABEL
from controlplane.simulation.apiserver.patches import merge_patch
from controlplane.simulation.kueue.cluster import Kueue


class KueueManager(Kueue):
    """The management cluster's Kueue."""

    def default_job(self, kind: Kind, job: Json) -> None:
        """Default managedBy (gate MultiKueue) where it is unset or names the kind's own controller."""
        integration = INTEGRATIONS[kind]
        if not self.gates.multikueue or integration.managed_by(job) not in ("", integration.own_controller):
            return
        if self.leads_to_multikueue(meta(job).get("namespace") or "", meta(job)["labels"][QUEUE_LABEL]):
            job["spec"] = merge_patch(job["spec"], integration.delegated(MULTIKUEUE))

    def leads_to_multikueue(self, namespace: str, local_queue: str) -> bool:
        """Return whether a LocalQueue leads to a ClusterQueue with a MultiKueue check."""
        found = self.view.get(LOCAL_QUEUES, namespace, local_queue)
        if found is None:
            return False
        for name in self.queues.checks_of(found):
            check = self.view.get(ADMISSION_CHECKS, "", name)
            if check is not None and check["spec"].get("controllerName") == MULTIKUEUE:
                return True
        return False
