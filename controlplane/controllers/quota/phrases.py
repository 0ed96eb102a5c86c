"""What each event of quota automation says, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.quota import events
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, listed, refused_write, told

WRITES: Mapping[str, str] = {
    "QuotaDecided": "the nominal quotas",
    "QuotaConditionDecided": "the condition MultiKueueManagerQuotaAutomation",
}


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items())) or "nothing"


def _decided(event: events.QuotaDecided) -> str:
    shares = "; ".join(f"{cluster} {_amounts(share)}" for cluster, share in sorted(event.shares.items()))
    kept = f" ({listed(event.kept)} as last seen)" if event.kept else ""
    return (
        f"nominal quota is to be {_amounts(event.resources)}, was {_amounts(event.before)}: "
        f"{shares or 'no worker'}{kept}"
    )


def _condition(event: events.QuotaConditionDecided) -> str:
    if not event.status:
        return "condition MultiKueueManagerQuotaAutomation is to be removed"
    return f"quota automation is to be shown {event.status}: {event.message}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.QuotaQueueObserved: "ClusterQueue {e.name} is there",
        events.QuotaQueueGone: "ClusterQueue {e.name} is gone",
        events.QuotaCheckObserved: "AdmissionCheck {e.name} names MultiKueueConfig {e.config}",
        events.QuotaCheckGone: "AdmissionCheck {e.name} is gone",
        events.QuotaConfigObserved: lambda e: f"MultiKueueConfig {e.name}: quota is {e.management or 'Manual'}",
        events.QuotaConfigGone: "MultiKueueConfig {e.name} is gone",
        events.QuotaLocalQueueObserved: "LocalQueue {e.namespace}/{e.name} leads to ClusterQueue {e.cluster_queue}",
        events.QuotaLocalQueueGone: "LocalQueue {e.namespace}/{e.name} is gone",
        events.WorkerQuotaObserved: lambda e: (
            f"worker's ClusterQueue {e.name} has "
            f"{_amounts({name: '+'.join(found) for name, found in e.quotas.items()})}"
        ),
        events.WorkerQuotaGone: "worker's ClusterQueue {e.name} is gone",
        events.QuotaInputRefused: "{e.kind} {e.name} cannot be read: {e.error}",
        events.QuotaDecided: _decided,
        events.QuotaConditionDecided: _condition,
        events.QuotaWriteFailed: lambda e: refused_write(e, WRITES),
        events.QuotaWriteUnneeded: lambda e: f"{WRITES.get(e.action, e.action)} is so already",
    }
)
