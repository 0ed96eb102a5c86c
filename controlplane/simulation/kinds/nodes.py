"""What a simulated cluster with nodes serves beyond `DEFAULT_KINDS`: what a scheduler looks at. Pure data, as
`kinds`.
"""

from __future__ import annotations

from controlplane.kube import kinds
from controlplane.simulation.kinds.base import AGE, DEFAULT_KINDS, Column, ServedKind, pod_lists

_CONDITIONS = {"status.conditions": ("type",)}
TEMPLATE = {**_CONDITIONS, **pod_lists("spec.template.spec")}
READY = (Column("Ready", ".status.readyReplicas", "integer"), Column("Desired", ".spec.replicas", "integer"), AGE)

OWNING_KINDS: tuple[ServedKind, ...] = (
    ServedKind(kinds.REPLICA_SETS, short_names=("rs",), columns=READY, list_map_keys=TEMPLATE),
    ServedKind(kinds.STATEFUL_SETS, short_names=("sts",), columns=READY, list_map_keys=TEMPLATE),
    ServedKind(
        kinds.PERSISTENT_VOLUME_CLAIMS,
        short_names=("pvc",),
        columns=(Column("Status", ".status.phase"), Column("Volume", ".spec.volumeName"), AGE),
        list_map_keys=_CONDITIONS,
        generation=False,
    ),
)
"""What controllers of pods work with as much as schedulers do."""

SCHEDULING_KINDS: tuple[ServedKind, ...] = (
    *OWNING_KINDS,
    ServedKind(kinds.SERVICES, short_names=("svc",), columns=(Column("Type", ".spec.type"), AGE), generation=False),
    ServedKind(
        kinds.REPLICATION_CONTROLLERS,
        short_names=("rc",),
        columns=(Column("Desired", ".spec.replicas", "integer"), AGE),
        list_map_keys=_CONDITIONS,
    ),
    ServedKind(
        kinds.PERSISTENT_VOLUMES,
        short_names=("pv",),
        columns=(Column("Status", ".status.phase"), Column("StorageClass", ".spec.storageClassName"), AGE),
        generation=False,
    ),
    ServedKind(
        kinds.STORAGE_CLASSES,
        status_subresource=False,
        short_names=("sc",),
        columns=(Column("Provisioner", ".provisioner"), Column("VolumeBindingMode", ".volumeBindingMode"), AGE),
        generation=False,
    ),
    ServedKind(
        kinds.RESOURCE_CLAIMS,
        columns=(Column("State", ".status.allocation.devices.results[0].device"), AGE),
        list_map_keys={"status.reservedFor": ("uid",)},
        generation=False,
    ),
    ServedKind(kinds.RESOURCE_SLICES, status_subresource=False),
    ServedKind(kinds.DEVICE_CLASSES, status_subresource=False),
    ServedKind(kinds.CSI_NODES, status_subresource=False, generation=False),
    ServedKind(kinds.VOLUME_ATTACHMENTS, columns=(Column("Attacher", ".spec.attacher"), AGE), generation=False),
    ServedKind(
        kinds.POD_DISRUPTION_BUDGETS,
        short_names=("pdb",),
        columns=(Column("Allowed Disruptions", ".status.disruptionsAllowed", "integer"), AGE),
        list_map_keys=_CONDITIONS,
    ),
)

NODE_KINDS: tuple[ServedKind, ...] = (*DEFAULT_KINDS, *SCHEDULING_KINDS)
"""Everything that a cluster with nodes serves."""
