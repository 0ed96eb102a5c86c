"""What admission by this service says of itself."""

from __future__ import annotations

from controlplane.controllers.quota.admission import device_events, events, topology_events
from controlplane.controllers.quota.admission.phrases import PHRASES, WRITES
from controlplane.controllers.quota.admission.reasons import REASONS
from controlplane.runtime.hosting import GrantedRights
from controlplane.runtime.manifest import Deferred, Manifest

_EVENTS = (*events.EVENTS, *topology_events.EVENTS, *device_events.EVENTS)
MANIFEST = Manifest(
    title="Admission by quota",
    intro="Recorded where `quota.mode` is `builtin`.",
    events=_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.AdmissionDecision,
    write=events.AdmissionWrite,
    writes={one: WRITES[one.__name__] for one in _EVENTS if one.__name__ in WRITES},
    runs=lambda settings, policy: settings.quota.builtin,
    host=Deferred("controlplane.controllers.quota.admission.hosting:host"),
    rights=(
        GrantedRights(manifest="rbac/management/admission.yaml", when=lambda settings: settings.quota.builtin),
        GrantedRights(
            manifest="visibility/clusterrole.yaml",
            when=lambda settings: settings.quota.builtin and settings.quota.visibility.certificate,
        ),
    ),
    streams={
        "admission/workload/NS/NAME": "a Workload as quota is reserved for it",
        "admission/clusterqueue/NAME": "a ClusterQueue",
        "admission/cohort/NAME": "a Cohort",
        "admission/localqueue/NS/NAME": "a LocalQueue",
        "admission/worker/CLUSTER/NS/NAME": "a worker's LocalQueue, where what is used there counts",
        "admission/flavor/NAME": "a ResourceFlavor",
        "admission/check/NAME": "an AdmissionCheck",
        "admission/namespace/NAME": "a namespace",
        "admission/priorityclass/NAME": "a WorkloadPriorityClass",
        "admission/limitrange/NS/NAME": "a LimitRange",
        "admission/runtimeclass/NAME": "a RuntimeClass",
        "admission/topology/NAME": "a Topology",
        "admission/claimtemplate/NS/NAME": "a ResourceClaimTemplate that a Workload may name",
        "admission/deviceclass/NAME": "a DeviceClass, where devices count as quota",
        "admission/resourceslice/NAME": "a ResourceSlice, where devices are counted by what is published of them",
        "admission/node/NAME": "a Node, with the pods on it that no topology has placed",
        "admission/placed/NS/NAME": "the pods of a Workload that a topology has placed",
        "admission/room": "what ended on nodes",
        "admission/devices": "that devices are counted anew",
        "admission/refused/KIND/NS/NAME": "an object that cannot be read",
    },
)
