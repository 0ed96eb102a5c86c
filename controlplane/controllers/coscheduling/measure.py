"""What metrics show of PipelineRuns: how many are under way, by mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.runtime.hosting import GaugeReading


def gauges(controller: CoschedulingController) -> Iterator[GaugeReading]:
    """Yield the number of runs in each mode."""
    under_way = (state.current for state in controller.runs.values())
    modes = Counter(one.pinned.mode for one in under_way if one is not None and one.pinned and not one.over)
    for mode in Mode:
        yield GaugeReading("coscheduled_runs", modes[mode.value], {"mode": mode.value})
