"""The settings of what counts of all that pods ask for; Kueue has them under `resources` in its configuration."""

from __future__ import annotations

from typing import Annotated

from controlplane.settings.device_class_mappings import DeviceClassMapping, DeviceClassMappings
from controlplane.settings.resource_transformations import Transformation, Transformations
from controlplane.settings.rules import Choice, Items, Setting
from controlplane.values import Value

IGNORE_UNDECLARED = "IgnoreUndeclared"


class QuotaResources(Value, rename="camel"):
    """What of the requests of pods counts; what Kueue calls `resources` in its configuration."""

    quota_check_strategy: Annotated[
        str,
        Setting(
            Choice(("BlockUndeclared", IGNORE_UNDECLARED)),
            "With `builtin`: what follows from a resource that pods ask for and their ClusterQueue does not name. With "
            "`BlockUndeclared` the Workload waits; with `IgnoreUndeclared` the resource counts nowhere.",
        ),
    ] = "BlockUndeclared"
    exclude_resource_prefixes: Annotated[
        tuple[str, ...],
        Setting(
            Items("prefixes of resources, such as example.com/", r"[A-Za-z0-9][-A-Za-z0-9_./]*", 316),
            "With `builtin`: resources whose name begins so do not count, whatever asks for them.",
        ),
    ] = ()
    transformations: Annotated[
        tuple[Transformation, ...],
        Setting(
            Transformations(),
            "With `builtin`: what is counted for each unit of a resource that pods ask for, beside it (`Retain`) or "
            "in its place (`Replace`), times what they ask for of the resource `multiplyBy`.",
        ),
    ] = ()
    device_class_mappings: Annotated[
        tuple[DeviceClassMapping, ...],
        Setting(
            DeviceClassMappings(),
            "With `builtin`: as which resource the devices count that pods ask for by ResourceClaimTemplates, or by "
            "the extended resources of DeviceClasses: each as one, or by a counter of the devices (`sources`).",
        ),
    ] = ()

    @property
    def ignores_undeclared(self) -> bool:
        """Whether what a ClusterQueue does not name counts nowhere."""
        return self.quota_check_strategy == IGNORE_UNDECLARED
