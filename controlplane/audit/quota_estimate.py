"""When a Workload that waits for quota would get it, by how long runs lasted that have ended.

In: what admission knows, the durations of ended runs, the moment. Out: an `Estimate`, as plain values and as a
sentence. Pure, and the same for the same log: the engine is played forward a few times, each time with other durations
out of those that are recorded, and each Workload has in the same draw the same rank among its group, whoever asks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from controlplane.audit.quota_runs import ALL, KIND, QUEUE, Durations, Group, identity
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.explain import Wait
from controlplane.controllers.quota.engine.forecast import MOST_STEPS, Excerpt, Forecast, excerpt, forecast
from controlplane.controllers.quota.engine.model import Workload
from controlplane.kube.durations import human_duration
from controlplane.values import Value

DRAWS, FEWEST_DRAWS = 25, 5
"""How many draws there are, and how many a bound needs, where there are fewer since each takes long."""
_EXACT = 600
"""Below how many seconds of waiting the times have seconds: where the duration beside them has some
(`human_duration`)."""
MOST_DECISIONS = 4000
"""How many decisions of the engine an estimate may take, in all draws together."""
_GROUPS = {KIND: "of the same kind", QUEUE: "of the same queue", ALL: "of all queues"}

NO_RUNS = "no run is recorded that has ended"
NEVER = "there is less quota than it asks for"
NOWHERE = "there is no place for its pods, whoever ends"
NOT_QUOTA = "it waits for something else than quota"
LASTING = "those that have the quota run for longer than any run that is recorded"
NOT_ENOUGH = "what is recorded does not lead to its admission"


class Sample(Value):
    """A group of runs that an estimate rests on: how many runs there are in it, and how many Workloads were judged by
    it."""

    group: str
    runs: int
    workloads: int


class Estimate(Value):
    """When a Workload gets quota: the median of the draws, and the moment by which it has it in nine of ten; None where
    that was not found, and if there is not even the first, `reason` says why. `checks`: admission checks follow then.
    `bounded`: there were fewer draws than usual, since each takes long, or not all that wait in other ClusterQueues
    were followed."""

    at: datetime | None = None
    late: datetime | None = None
    reason: str = ""
    draws: int = 0
    bounded: bool = False
    checks: bool = False
    samples: tuple[Sample, ...] = ()


def estimate(index: AdmissionIndex, durations: Durations, key: str, wait: Wait, now: datetime) -> Estimate:
    """Return when a Workload gets quota, given why it waits."""
    other = wait.inactive or wait.inadmissible or wait.uncovered
    of = excerpt(index.engine, key) if not other else None
    if of is None or of.target.requeue_at == math.inf:
        return Estimate(reason=NOT_QUOTA)
    if never := _never(wait):
        return Estimate(reason=never)
    if not durations:
        return Estimate(reason=NO_RUNS)
    return _estimated(_Draws(index, durations, of, now.timestamp()), wait)


def _never(wait: Wait) -> str:
    """Return why a Workload gets no quota as things are, empty if it may."""
    if not any(all(one.never for one in group) for group in wait.groups):
        return ""
    return NOWHERE if any(one.never_placed for group in wait.groups for one in group) else NEVER


def _estimated(draws: _Draws, wait: Wait) -> Estimate:
    """Return what the draws say."""
    of = draws.of
    found = list(draws.run())
    if not found:
        return Estimate(reason=f"{len(of.ahead)} wait before it, too many to follow", bounded=True)
    moments = sorted(math.inf if one.at is None else one.at for one in found)
    at = _quantile(moments, 0.5)
    if at is None:
        return Estimate(reason=LASTING if draws.outlived else NOT_ENOUGH, draws=len(found))
    return Estimate(
        at=at,
        late=_quantile(moments, 0.9) if len(found) >= FEWEST_DRAWS else None,
        draws=len(found),
        bounded=len(found) < DRAWS or of.left_out > 0,
        checks=any(spec.name == wait.cluster_queue and spec.admission_checks for spec in of.tree),
        samples=draws.samples(),
    )


class _Draws:
    """The draws of one estimate. `outlived`: some that have quota have lasted for longer than all that is recorded."""

    def __init__(self, index: AdmissionIndex, durations: Durations, of: Excerpt, now: float) -> None:
        self.index, self.durations, self.of, self.now = index, durations, of, now
        self.groups: dict[str, Group | None] = {}
        self.outlived = False

    def run(self) -> Iterator[Forecast]:
        """Yield what comes of each draw, as long as it may go on."""
        left = MOST_DECISIONS
        for draw in range(DRAWS):
            ends = {one.key: self._ends(draw, one) for one in self.of.holders}
            found = forecast(self.of, self.now, ends, partial(self._lasts, draw), left)
            left -= found.steps
            if found.why == MOST_STEPS:
                return
            yield found

    def samples(self) -> tuple[Sample, ...]:
        """Return the groups that were used, the narrowest first."""
        used = [one for one in self.groups.values() if one is not None]
        found = []
        for name in _GROUPS:
            runs = {one.of: one.runs for one in used if one.name == name}
            if runs:
                workloads = sum(one.name == name for one in used)
                found.append(Sample(group=name, runs=sum(runs.values()), workloads=workloads))
        return tuple(found)

    def _ends(self, draw: int, holder: Workload) -> float:
        """Return when one ends that has quota, given that it has lasted until now."""
        since = holder.reserved_at if holder.reserved_at is not None else self.now
        lasted = max(0.0, self.now - since)
        group = self._group(holder.key, lasted)
        if group is None:
            self.outlived = True
        return since + max(lasted, self._seconds(draw, holder.key, group))

    def _lasts(self, draw: int, key: str) -> float:
        """Return for how many seconds one has quota that is started. One that has quota now, and is started again, is
        judged as if it had lasted for as long already."""
        return self._seconds(draw, key, self._group(key))

    def _group(self, key: str, lasted: float = -1.0) -> Group | None:
        if key not in self.groups:
            seen = self.index.workload(key).observed
            self.groups[key] = self.durations.group(*identity(seen), lasted) if seen is not None else None
        return self.groups[key]

    def _seconds(self, draw: int, key: str, group: Group | None) -> float:
        drawn = math.inf if group is None else group.seconds[int(_rank(draw, key) * len(group.seconds))]
        return min(drawn, self._most(key))

    def _most(self, key: str) -> float:
        """Return for how many seconds one may run at most."""
        seen = self.index.workload(key).observed
        most: int | None = seen.maximum_execution_seconds if seen is not None else None
        if most is None:
            return math.inf
        return max(0.0, most - float(seen.status.get("accumulatedPastExecutionTimeSeconds") or 0))


def _rank(draw: int, key: str) -> float:
    """Return which of a group's durations a Workload has in a draw, from 0 to 1: as a hash has it."""
    return int.from_bytes(hashlib.sha256(f"{draw} {key}".encode()).digest()[:6]) / 2**48


def _quantile(moments: Sequence[float], share: float) -> datetime | None:
    found = moments[math.ceil(share * len(moments)) - 1]
    return None if found == math.inf else datetime.fromtimestamp(found, UTC)


def plain(found: Estimate, now: datetime) -> dict[str, Any]:
    """Return an estimate as plain values."""
    return {
        "at": found.at,
        "seconds": None if found.at is None else (found.at - now).total_seconds(),
        "late": found.late,
        "late_seconds": None if found.late is None else (found.late - now).total_seconds(),
        "reason": found.reason,
        "draws": found.draws,
        "bounded": found.bounded,
        "checks": found.checks,
        "samples": [{"group": one.group, "runs": one.runs, "workloads": one.workloads} for one in found.samples],
    }


def sentence(found: Mapping[str, Any]) -> str:
    """Return what `plain` returned as a sentence; times are UTC."""
    at, late = found["at"], found["late"]
    if at is None:
        return f"No estimate of when: {found['reason']}."
    runs = " and ".join(f"{one['runs']} runs {_GROUPS[one['group']]}" for one in found["samples"])
    exact = found["seconds"] < _EXACT
    by = f"9 of 10 by {_time(late, at, exact)}" if late is not None else "how late at most is not known"
    what = "quota" if found["checks"] else "admitted"
    checks = ", and its admission checks come after" if found["checks"] else ""
    bounded = ", and not all that wait were followed" if found["bounded"] else ""
    rests = f", from {runs}" if runs else ""
    soon = human_duration(max(found["seconds"], 0.0))
    return f"Estimate: {what} at about {at:%Y-%m-%d} {_clock(at, exact)} UTC (in {soon}; {by}){checks}{rests}{bounded}."


def _time(late: datetime, at: datetime, exact: bool) -> str:
    day = "" if late.date() == at.date() else f"{late:%Y-%m-%d} "
    return day + _clock(late, exact)


def _clock(at: datetime, exact: bool) -> str:
    return f"{at:%H:%M:%S}" if exact else f"{at:%H:%M}"
