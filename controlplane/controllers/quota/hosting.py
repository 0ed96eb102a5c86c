"""Hosts quota automation, where the settings ask for it.

In: settings. Out: the controller's part of the log, and what it watches: queues, on the management cluster and on each
worker. Where it is off nothing of that is watched."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.quota.controller import QuotaController, QuotaPolicy
from controlplane.controllers.quota.observe import QUOTA
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CONFIGS
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings

HOME_KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES, ADMISSION_CHECKS, MULTIKUEUE_CONFIGS)
WORKER_KINDS = (CLUSTER_QUEUES, LOCAL_QUEUES)


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controller, or none."""
    chosen = settings.multikueue
    if chosen.quota_automation != "yes" or "multikueue" not in settings.run.controllers:
        return ()
    policy = QuotaPolicy(controller_name=chosen.controller_name, worker_lost_timeout=chosen.worker_lost_timeout)
    controller = QuotaController(policy)
    hears = frozenset({"cluster", "service", "fleet"})
    return (
        HostedController(
            registration=Registration("quota", controller, frozenset({QUOTA}), hears, identities="quota"),
            home=[WatchSpec(kind) for kind in HOME_KINDS],
            workers=[WatchSpec(kind) for kind in WORKER_KINDS],
            knows=controller.places,
        ),
    )
