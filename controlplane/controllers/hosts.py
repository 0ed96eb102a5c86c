"""The controllers that a service can host, in the order in which they look at an object. A new one is a line here.

One that is off is not loaded: most services host MultiKueue's alone, and start sooner for it. What is asked here is
coarse; each folder's `host` has the last word."""

from __future__ import annotations

from controlplane.controllers.multikueue import hosting as multikueue
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.runtime.hosting import HostedController
from controlplane.settings.model import Settings


def hosted(settings: Settings, policy: MultiKueuePolicy | None = None) -> list[HostedController]:
    """Return the controllers that the settings name; `policy` takes the place of what they say of Workloads."""
    policy = policy or multikueue.policy_of(settings)
    on = settings.run.controllers
    found = [*multikueue.host(settings, policy)]
    if settings.multikueue.quota_automation == "yes":
        from controlplane.controllers.quota import hosting as quota

        found += quota.host(settings)
    if settings.quota.builtin:
        from controlplane.controllers.quota.admission import hosting as admission

        found += admission.host(settings)

        from controlplane.controllers.jobframework import hosting as jobframework

        found += jobframework.host(settings)
    if policy.dispatches and policy.judged:
        from controlplane.controllers.coscheduling.feasibility import hosting as feasibility

        found += feasibility.host(settings, policy.judged)
    if "candidates" in on:
        from controlplane.controllers.candidates.source import hosting as candidates

        found += candidates.host(settings)
    if "podgroups" in on:
        from controlplane.controllers.podgroups import hosting as podgroups

        found += podgroups.host(settings)
    if "coscheduling" in on:
        from controlplane.controllers.coscheduling import hosting as coscheduling

        found += coscheduling.host(settings)
    return found
