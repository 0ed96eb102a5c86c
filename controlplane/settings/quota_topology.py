"""The settings of how pods are placed in topologies; both are gates of Kueue that are off by default there."""

from __future__ import annotations

from typing import Annotated

from controlplane.settings.rules import Setting
from controlplane.settings.words import YES_NO
from controlplane.values import Value


class QuotaTopology(Value, rename="camel"):
    """Which domains of a topology are chosen."""

    balanced_placement: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the pods of a pod set with a preferred level are spread evenly over as few "
            "domains as can be, instead of filling one after the other. Kueue's gate `TASBalancedPlacement`.",
        ),
    ] = "no"
    preferred_node_affinity: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether domains whose nodes the preferred node affinity of pods names are chosen before "
            "others. Kueue's gate `TASRespectNodeAffinityPreferred`.",
        ),
    ] = "no"
