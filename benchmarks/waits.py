"""What one workload waited for, out of the API servers' audit logs.

In: requests, each with who asked and when it came and was answered. Out: how many there were, by verb and cluster; and
for each workload how long it was from the Job's creation until its admission check is Ready, and which part of that
lies between what Kueue's core wrote and what the dispatcher wrote for it: the dispatcher's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.api_servers import Asked
from benchmarks.kueue_core import IDENTITY, MANAGEMENT

_NUMBER = re.compile(r"train-(\d{6})")
_PROBES = ("/readyz", "/livez", "/version")


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds of one workload.

    `clone`: from the quota that is reserved to the first request for the winner's clone. `selection`: from the
    clone's admission to the request that says Ready, without what the API server took for requests before it."""

    NAMES: ClassVar[Sequence[str]] = (
        "submitted to Ready",
        "the dispatcher's own part",
        "of it: clone",
        "of it: selection",
    )

    ready: float
    clone: float
    selection: float

    def of(self, name: str) -> float:
        """Return the seconds of one of `NAMES`."""
        found = (self.ready, self.clone + self.selection, self.clone, self.selection)
        return found[self.NAMES.index(name)]


def counts(asked: Iterable[Asked]) -> dict[tuple[str, str], dict[str, int]]:
    """Return the dispatcher's requests by verb, resource and cluster; probes do not count."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for one in asked:
        if _dispatches(one) and one.resource not in _PROBES:
            of_kind = found.setdefault((one.verb, one.resource), {})
            of_kind[one.cluster] = of_kind.get(one.cluster, 0) + 1
    return found


def waits(asked: Iterable[Asked]) -> list[Waits]:
    """Return the waits of every workload that became Ready."""
    by_number: dict[str, list[Asked]] = {}
    for one in asked:
        if (found := _NUMBER.search(one.name)) and one.code < 300 and one.verb not in ("get", "list", "watch"):
            by_number.setdefault(found[1], []).append(one)
    return [waited for of_one in by_number.values() if (waited := _waits(of_one)) is not None]


def _waits(asked: Sequence[Asked]) -> Waits | None:
    ours = [one for one in asked if _dispatches(one)]
    others = [one for one in asked if not _dispatches(one)]
    submitted = _first(others, MANAGEMENT, "jobs", "create")
    reserved = _first(others, MANAGEMENT, "workloads/status")
    ready = next((one for one in ours if one.cluster == MANAGEMENT and _says_ready(one)), None)
    job = next(
        (one for one in ours if one.cluster != MANAGEMENT and (one.verb, one.resource) == ("create", "jobs")), None
    )
    if submitted is None or reserved is None or ready is None or job is None:
        return None
    clone = _first(ours, job.cluster, "workloads", "create")
    admitted = _first(others, job.cluster, "workloads/status")
    if clone is None or admitted is None:
        return None
    between = job.seconds if admitted.done <= job.received and job.done <= ready.received else 0.0
    return Waits(
        ready.done - submitted.received,
        max(0.0, clone.received - reserved.done),
        max(0.0, ready.received - admitted.done - between),
    )


def _first(asked: Iterable[Asked], cluster: str, resource: str, verb: str = "") -> Asked | None:
    fitting = (one for one in asked if one.cluster == cluster and one.resource == resource)
    return next((one for one in fitting if not verb or one.verb == verb), None)


def _says_ready(one: Asked) -> bool:
    checks = (one.body.get("status") or {}).get("admissionChecks") or []
    return one.resource == "workloads/status" and any(check.get("state") == "Ready" for check in checks)


def _dispatches(one: Asked) -> bool:
    return f"({IDENTITY})" not in one.agent and "(benchmark)" not in one.agent
