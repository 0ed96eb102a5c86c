"""From the settings to what decisions depend on. Apart from the service, so that a reader of the log needs nothing else of it."""

from __future__ import annotations

from datetime import timedelta

from controlplane.multikueue.adapters import adapters_for
from controlplane.multikueue.context import Policy
from controlplane.settings import Settings


def policy_of(settings: Settings) -> Policy:
    """Return what decisions depend on."""
    multikueue = settings.multikueue
    return Policy(
        origin=multikueue.origin,
        controller_name=multikueue.controller_name,
        adapters=adapters_for(multikueue.kinds),
        worker_lost_timeout=multikueue.worker_lost_timeout,
        gc_interval=multikueue.gc_interval if multikueue.gc_interval > timedelta(0) else None,
        status_interval=multikueue.status_interval,
        execution_policy=multikueue.execution_policy,
        readmission_grace=multikueue.readmission_grace,
        requeues_per_minute=multikueue.requeues_per_minute,
        mass_outage_share=settings.clusters.mass_outage_percent / 100,
    )
