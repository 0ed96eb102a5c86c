"""Builds the judgement of which workers can take a PipelineRun, by the settings: its part of the log, and what it
watches on workers.

In: settings. Out: the kinds that are judged, the controller and its watches. Where no PipelineRuns are dispatched, or
nobody wants them judged, there is neither."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.clusters.streams import WatchSpec
from controlplane.controllers.coscheduling.feasibility.controller import (
    HEARS,
    OWNS,
    FeasibilityController,
    FeasibilityPolicy,
)
from controlplane.controllers.coscheduling.flags import FLAGS_NAME
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import COMPONENT_LABEL, CONFIG_MAPS, NODES, PODS
from controlplane.kube.kinds import PIPELINE_RUNS, STORAGE_CLASSES
from controlplane.log.event import Event
from controlplane.runtime.router import Registration
from controlplane.settings import Settings

PIPELINE_RUN = "tekton.dev/pipelinerun"
TYPES: Sequence[type[Event]] = FeasibilityController.types
"""The events of the controller, whether it is on or off."""


def judged_kinds(settings: Settings) -> frozenset[str]:
    """Return the kinds of job (`Kind.name`) that are judged before they are offered to clusters."""
    multikueue = settings.multikueue
    on = PIPELINE_RUN in multikueue.kinds and multikueue.pipeline_run_filter == "facts"
    return frozenset({PIPELINE_RUNS.name}) if on else frozenset()


def judging(settings: Settings) -> FeasibilityController:
    """Return the controller."""
    return FeasibilityController(
        FeasibilityPolicy(
            controller_name=settings.multikueue.controller_name,
            config_namespace=settings.coscheduling.config_namespace,
            grows=frozenset(settings.multikueue.growing_clusters),
        )
    )


def room_of(found: FeasibilityController) -> Registration:
    """Return its part of the log."""
    return Registration("judging", found, OWNS, HEARS, identities="judging", reading=found)


def watches(settings: Settings) -> list[WatchSpec]:
    """Return what is watched on each worker: a few kinds, of pods the placeholders alone, of ConfigMaps the one with
    Tekton's flags.
    """
    return [
        WatchSpec(NODES),
        WatchSpec(STORAGE_CLASSES),
        WatchSpec(PODS, f"{COMPONENT_LABEL}={COMPONENT}"),
        WatchSpec(
            CONFIG_MAPS,
            namespace=settings.coscheduling.config_namespace,
            field_selector=f"metadata.name={FLAGS_NAME}",
        ),
    ]
