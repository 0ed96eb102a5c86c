"""What quota automation says of itself."""

from __future__ import annotations

from controlplane.controllers.quota import events
from controlplane.controllers.quota.phrases import PHRASES, WRITES
from controlplane.controllers.quota.reasons import REASONS
from controlplane.runtime.hosting import GrantedRights
from controlplane.runtime.manifest import Deferred, Manifest
from controlplane.settings.model import Settings


def _on(settings: Settings, policy: object = None) -> bool:
    return settings.multikueue.quota_automation == "yes" and "multikueue" in settings.run.controllers


MANIFEST = Manifest(
    title="Quota of ClusterQueues",
    intro="Recorded where `multikueue.quotaAutomation` is on.",
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.QuotaDecision,
    write=events.QuotaWrite,
    writes={one: WRITES[one.__name__] for one in (events.QuotaDecided, events.QuotaConditionDecided)},
    refused=events.QuotaInputRefused,
    counted=True,
    runs=_on,
    host=Deferred("controlplane.controllers.quota.hosting:host"),
    rights=(GrantedRights(manifest="rbac/management/quota.yaml", when=_on),),
    streams={
        "quota/queue/NAME": "a ClusterQueue of the management cluster, whose quota may be automated",
        "quota/check/NAME": "an AdmissionCheck, as quota rests on it",
        "quota/config/NAME": "a MultiKueueConfig, as quota rests on it",
        "quota/localqueue/CLUSTER/NS/NAME": "a LocalQueue of the management cluster (`@management`) or of a worker",
        "quota/worker/CLUSTER/NAME": "a worker's ClusterQueue",
        "quota/refused/CLUSTER/KIND/NS/NAME": "an object that cannot be read",
    },
)
