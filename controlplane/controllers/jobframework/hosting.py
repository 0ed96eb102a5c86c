"""Hosts the job framework, where this control plane admits Workloads itself.

In: settings. Out: the controller's part of the log, and what it watches of the management cluster."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.controller import JobFrameworkController
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.observe import CLASSES
from controlplane.custom_labels import CustomLabels
from controlplane.job_kinds import adapters_for
from controlplane.job_kinds.pod import PodOfParent
from controlplane.kube.kinds import NAMESPACES, PODS, RESOURCE_FLAVORS, WORKLOADS
from controlplane.kube.watches import PODS_OF_JOBS, UNENDED_PODS, WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controller, or none."""
    if not settings.quota.builtin:
        return ()
    controller = JobFrameworkController(policy_of(settings), settings.leader.identity)
    adapters = controller.policy.adapters.values()
    watched = [
        *map(WatchSpec, (WORKLOADS, RESOURCE_FLAVORS, *CLASSES)),
        *(WatchSpec(one.kind, one.home_selector) for one in adapters),
        *map(WatchSpec, controller.index.observer.runtimes),
        *([WatchSpec(NAMESPACES)] if controller.policy.asks_namespaces else []),
        *(WatchSpec(kind) for kind, one in controller.policy.parents.items() if one.grouped),
    ]

    def unseen() -> str:
        return "" if controller.index.ready else "the job framework does not see all that it needs"

    def wants() -> Sequence[WatchSpec]:
        index = controller.index
        return [*([UNENDED_PODS] if index.placed else ()), *([PODS_OF_JOBS] if index.sliced else ())]

    hears = frozenset({"cluster", "service"})
    return (
        HostedController(
            registration=Registration("jobframework", controller, frozenset({WORD}), hears, identities="jobframework"),
            home=watched,
            wants=wants,
            knows=controller.index.places,
            unseen=unseen,
        ),
    )


def policy_of(settings: Settings) -> JobFrameworkPolicy:
    """Return what decisions about jobs depend on: the kinds that can be dispatched, as far as Workloads are made of
    them."""
    kinds = adapters_for((*settings.multikueue.kinds, *settings.multikueue.external_frameworks)).values()
    adapters = {one.kind: one for one in kinds if one.reconciled}
    parents = {one.kind: one for one in kinds if one.suspends_pods}
    if parents and PODS not in adapters:
        adapters[PODS] = PodOfParent()
    reported_labels, reported_annotations = CustomLabels(settings.quota.metrics.custom_labels).keys_of_workloads
    return JobFrameworkPolicy(
        adapters=adapters,
        parents=parents,
        namespaces=settings.quota.managed_jobs_namespace_selector,
        manages_all=settings.quota.manage_jobs_without_queue_name == "yes",
        never=frozenset({*JobFrameworkPolicy().never, settings.multikueue.namespace}),
        pods_ready=settings.quota.says_pods_ready,
        after_deactivated=settings.quota.object_retention.after_deactivated,
        label_keys=tuple(dict.fromkeys((*settings.quota.label_keys_to_copy, *reported_labels))),
        annotation_keys=reported_annotations,
    )
