"""Hosts the judgement of which workers can take a PipelineRun.

In: settings, and the policy of Workloads, which says what is judged. Out: the controller's part of the log, and what it
watches on workers. Where no PipelineRuns are dispatched, or nobody wants them judged, there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controlplane.controllers.coscheduling.feasibility.controller import (
    HEARS,
    OWNS,
    FeasibilityController,
    FeasibilityPolicy,
)
from controlplane.controllers.coscheduling.flags import FLAGS_NAME
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import COMPONENT_LABEL, CONFIG_MAPS, NODES, PODS
from controlplane.kube.kinds import STORAGE_CLASSES
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings


class JudgedKinds(Protocol):
    """What the policy of Workloads says of judging."""

    @property
    def dispatches(self) -> bool:
        """Whether Workloads are dispatched at all."""

    @property
    def judged(self) -> frozenset[str]:
        """The kinds of job (`Kind.name`) that are judged."""


def host(settings: Settings, policy: JudgedKinds) -> Sequence[HostedController]:
    """Return the controller if any kind is judged."""
    if not policy.dispatches or not policy.judged:
        return ()
    found = FeasibilityController(
        FeasibilityPolicy(
            controller_name=settings.multikueue.controller_name,
            config_namespace=settings.coscheduling.config_namespace,
            grows=frozenset(settings.multikueue.growing_clusters),
        )
    )
    registration = Registration("judging", found, OWNS, HEARS, identities="judging", reading=found)
    return (HostedController(registration=registration, workers=watches(settings), knows=found.places),)


def watches(settings: Settings) -> Sequence[WatchSpec]:
    """Return what is watched on each worker: a few kinds, of pods the placeholders alone, of ConfigMaps the one with
    Tekton's flags.
    """
    return (
        WatchSpec(NODES),
        WatchSpec(STORAGE_CLASSES),
        WatchSpec(PODS, f"{COMPONENT_LABEL}={COMPONENT}"),
        WatchSpec(
            CONFIG_MAPS,
            namespace=settings.coscheduling.config_namespace,
            field_selector=f"metadata.name={FLAGS_NAME}",
        ),
    )
