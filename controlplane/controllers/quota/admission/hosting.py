"""Hosts admission by quota, where the settings ask for it.

In: settings. Out: the controller's part of the log, and what it watches on the management cluster. Where Kueue decides
nothing of that is watched."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.metric_labels import MetricLabels
from controlplane.controllers.quota.admission.observe import ADMISSION, KINDS
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.admission.topologies import watch_of
from controlplane.controllers.quota.devices.model import CounterSource, DeviceMapping, DeviceRules
from controlplane.controllers.quota.engine.resource_rules import ResourceRules, ResourceTransformation
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.controllers.quota.topology.model import PlacementRules
from controlplane.custom_labels import CustomLabels
from controlplane.kube.kinds import LOCAL_QUEUES
from controlplane.kube.quantities import NANO, nanos
from controlplane.kube.selectors import parse_selector
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings
from controlplane.settings.quota import DOMINANT, NAMESPACE


def engine_settings(settings: Settings) -> EngineSettings:
    """Return how the engine decides, by the settings."""
    sharing, waiting = settings.quota.fair_sharing, settings.quota.wait_for_pods_ready
    return EngineSettings(
        fair_sharing=sharing.enable == "yes",
        preemption_strategies=sharing.preemption_strategies,
        admission_fair_sharing=admission_fair_sharing(settings),
        block_admission="no" not in (waiting.enable, waiting.block_admission),
        requeuing_timestamp=waiting.requeuing_strategy.timestamp,
        readmission_order=settings.quota.readmission_order,
        prioritize_preemptors=settings.quota.prioritize_preemptors == "yes",
        resources=resource_rules(settings),
        ignore_undeclared=settings.quota.resources.ignores_undeclared,
        devices=device_rules(settings),
        preemption_gates=settings.keeps_to_preemption_gates,
        priority_boost=settings.quota.priority_boost == "yes",
        explicit_status=settings.quota.unadmitted_workloads_explicit_status == "yes",
        placement=PlacementRules(
            balanced=settings.quota.topology.balanced_placement == "yes",
            preferred_affinity=settings.quota.topology.preferred_node_affinity == "yes",
        ),
    )


def device_rules(settings: Settings) -> DeviceRules:
    """Return as what devices count, by the settings."""
    found = []
    for one in settings.quota.resources.device_class_mappings:
        counters = (CounterSource(one.name, source.driver, source.counter, source.selector) for source in one.sources)
        found.append(DeviceMapping(one.name, one.device_class_names, tuple(counters)))
    return DeviceRules.of(found, settings.quota.dynamic_resources)


def resource_rules(settings: Settings) -> ResourceRules:
    """Return what of the requests of pods counts, by the settings."""
    found = settings.quota.resources
    return ResourceRules(
        excluded=found.exclude_resource_prefixes,
        transformations={
            one.input: ResourceTransformation(
                outputs={name: Fraction(nanos(quantity), NANO) for name, quantity in one.outputs},
                replaces=one.strategy == "Replace",
                multiply_by=one.multiply_by,
            )
            for one in found.transformations
        },
    )


def admission_fair_sharing(settings: Settings) -> AdmissionFairSharing | None:
    """Return how past usage counts, by the settings; None if it does not."""
    found = settings.quota.admission_fair_sharing
    if found.enable == "no":
        return None
    return AdmissionFairSharing(
        half_life=found.usage_half_life_time.total_seconds(),
        sampling_interval=found.usage_sampling_interval.total_seconds(),
        weights=dict(found.resource_weights),
        dominant=found.usage == DOMINANT,
        by_namespace=found.tenant == NAMESPACE,
        workers=found.worker_usage == "yes",
    )


def wait_for_pods_ready(settings: Settings) -> WaitForPodsReady | None:
    """Return how long pods are waited for, by the settings; None if nothing waits for them."""
    found = settings.quota.wait_for_pods_ready
    if found.enable == "no":
        return None
    again = found.requeuing_strategy
    return WaitForPodsReady(
        timeout=found.timeout,
        recovery_timeout=found.recovery_timeout or None,
        limit=again.backoff_limit_count if again.backoff_limit_count >= 0 else None,
        base=again.backoff_base_seconds,
        most=again.backoff_max_seconds,
    )


def metric_labels(settings: Settings) -> MetricLabels:
    """Return what the metrics take from labels, by the settings."""
    found = settings.quota.metrics
    return MetricLabels(CustomLabels(found.custom_labels), parse_selector(found.local_queue_selector))


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controller, or none."""
    if not settings.quota.builtin:
        return ()
    controller = AdmissionController(
        engine_settings(settings),
        settings.leader.identity,
        wait_for_pods_ready(settings),
        settings.quota.object_retention.after_finished,
        metric_labels(settings),
    )

    def unseen() -> str:
        return controller.index.unseen

    def wants() -> Sequence[WatchSpec]:
        return [watch_of(kind) for kind in controller.index.followed]

    return (
        HostedController(
            registration=Registration(
                "admission",
                controller,
                frozenset({ADMISSION}),
                frozenset({"cluster", "service"}),
                identities="admission",
            ),
            home=[WatchSpec(kind) for kind in KINDS],
            workers=[WatchSpec(LOCAL_QUEUES)] if settings.quota.counts_workers else (),
            wants=wants,
            knows=controller.places,
            unseen=unseen,
        ),
    )
