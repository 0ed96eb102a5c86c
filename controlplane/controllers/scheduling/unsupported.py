"""Refuses, with the reason, a pod that asks for what this scheduler cannot give: it is never bound.

In: a pod and the snapshot. Out: a status, as kube-scheduler's own plugins for it would say (DynamicResources,
VolumeRestrictions): both are looked at whatever a profile enables, since to bind such a pod would be to promise what
nobody keeps."""

from __future__ import annotations

from controlplane.controllers.scheduling.framework.status import SUCCESS, Status, unresolvable
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot

DYNAMIC_RESOURCES, VOLUME_RESTRICTIONS = "DynamicResources", "VolumeRestrictions"
CLAIMED = "pod asks for spec.resourceClaims, which this scheduler does not allocate"


def unsupported(pod: Pod, snapshot: Snapshot) -> Status:
    """Return why a pod cannot be placed by this scheduler, Success if it can."""
    if pod.spec.get("resourceClaims"):
        return unresolvable(CLAIMED).by(DYNAMIC_RESOURCES)
    for name, _ in pod.claims:
        claim = snapshot.cluster.claims.get((pod.namespace, name))
        if claim is None or "ReadWriteOncePod" not in claim.modes:
            continue
        users = snapshot.users.get((pod.namespace, name), {})
        others = sorted(key for identity, key in users.items() if identity != pod.identity)
        if others:
            said = f'persistentvolumeclaim "{name}" has access mode ReadWriteOncePod and is used by pod {others[0]}'
            return unresolvable(said).by(VOLUME_RESTRICTIONS)
    return SUCCESS
