"""Says what is to be watched of a kind: the objects of one namespace or of all, narrowed by selectors."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.kube.kinds import PODS_OF_SLICES, PODS_OF_TOPOLOGIES, Kind
from controlplane.kube.kueue_names import POD_SET_LABEL


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """One kind to be watched on every cluster, narrowed by label selector, field selector and namespace (empty: all
    objects).

    What an object says in a selected field should never change: one that leaves a selection is shown as gone.
    """

    kind: Kind
    label_selector: str = ""
    namespace: str = ""
    field_selector: str = ""

    @property
    def label(self) -> str:
        """The name of what is followed, as the log has it: the kind, and the namespace if it is only one."""
        return f"{self.kind.name}/{self.namespace}" if self.namespace else self.kind.name


_UNENDED = "status.phase!=Succeeded,status.phase!=Failed"
UNENDED_PODS = WatchSpec(PODS_OF_TOPOLOGIES, field_selector=_UNENDED)
"""The pods that topology-aware scheduling counts and places. One that ends is shown as gone, which is what counts of
it."""
PODS_OF_JOBS = WatchSpec(PODS_OF_SLICES, POD_SET_LABEL, field_selector=_UNENDED)
"""The pods that say of which pod set they are, for those of elastic jobs among them."""
