"""What metrics show of PodGroups: how many there are in each phase, and how many pods have none yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from controlplane.controllers.podgroups.index import PodGroupIndex
from controlplane.controllers.podgroups.phases import Phase
from controlplane.runtime.hosting import GaugeReading


def gauges(index: PodGroupIndex) -> Iterator[GaugeReading]:
    """Yield the number of groups in each phase, and that of pods without one."""
    phases = Counter(group.phase for group in index.groups.values() if group.seen is not None)
    for phase in get_args(Phase):
        yield GaugeReading("pod_groups", phases[phase], {"phase": phase})
    yield GaugeReading("ungrouped_pods", len(index.unresolved))
