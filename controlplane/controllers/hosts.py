"""The controllers that a service can host, in the order in which they look at an object. A new one is a line here."""

from __future__ import annotations

from controlplane.controllers.candidates.source import hosting as candidates
from controlplane.controllers.coscheduling import hosting as coscheduling
from controlplane.controllers.coscheduling.feasibility import hosting as feasibility
from controlplane.controllers.multikueue import hosting as multikueue
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.podgroups import hosting as podgroups
from controlplane.runtime.hosting import HostedController
from controlplane.settings.model import Settings


def hosted(settings: Settings, policy: MultiKueuePolicy | None = None) -> list[HostedController]:
    """Return the controllers that the settings name; `policy` takes the place of what they say of Workloads."""
    policy = policy or multikueue.policy_of(settings)
    return [
        *multikueue.host(settings, policy),
        *feasibility.host(settings, policy.judged if policy.dispatches else frozenset()),
        *candidates.host(settings),
        *podgroups.host(settings),
        *coscheduling.host(settings),
    ]
