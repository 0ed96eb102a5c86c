"""The settings of who decides on quota, and how; what Kueue has of it in its configuration carries Kueue's names."""

from __future__ import annotations

from typing import Annotated

from controlplane.settings.rules import Choice, Names, Setting
from controlplane.settings.words import YES_NO
from controlplane.values import Value

PREEMPTION_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
BUILTIN = "builtin"


class FairSharing(Value, rename="camel"):
    """Whether shares of Cohorts decide; what Kueue calls `fairSharing` in its configuration."""

    enable: Annotated[
        str,
        Setting(YES_NO, "Whether workloads are ordered and preempted by the shares that their ClusterQueues use."),
    ] = "no"
    preemption_strategies: Annotated[
        tuple[str, ...],
        Setting(
            Names(PREEMPTION_STRATEGIES),
            "When a workload of another ClusterQueue is preempted for the sake of shares, in the order in which they are tried.",
        ),
    ] = PREEMPTION_STRATEGIES


class QuotaSettings(Value, rename="camel"):
    """Who reserves quota and admits Workloads on the management cluster."""

    mode: Annotated[
        str,
        Setting(
            Choice(("kueue", BUILTIN)),
            "Who decides on quota on the management cluster: `kueue`, Kueue's own manager; or `builtin`, this service, which then does "
            "what Kueue's scheduler and its core controllers do. Kueue's manager must not run there then; its CRDs must be there.",
        ),
    ] = "kueue"
    pods_ready: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the condition `PodsReady` of Workloads is written by what their jobs show, as with Kueue's "
            "`waitForPodsReady`. Nothing waits for it, and nothing is evicted for it.",
        ),
    ] = "no"
    fair_sharing: FairSharing = FairSharing()

    @property
    def builtin(self) -> bool:
        """Whether this service decides on quota."""
        return self.mode == BUILTIN
