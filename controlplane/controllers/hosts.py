"""The controllers that a service hosts, by its settings.

One that is off is not loaded: most services host MultiKueue's alone, and start sooner for it."""

from __future__ import annotations

from controlplane.controllers.manifests import HOSTED
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.runtime.hosting import HostedController
from controlplane.settings.model import Settings


def hosted(settings: Settings, policy: MultiKueuePolicy | None = None) -> list[HostedController]:
    """Return the controllers that the settings name; `policy` takes the place of what they say of Workloads."""
    policy = policy or policy_of(settings)
    parts = (one.host.load() for one in HOSTED if one.host is not None and one.runs(settings, policy))
    return [one for host in parts for one in host(settings, policy)]
