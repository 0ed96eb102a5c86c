"""Says which gang a pod is of: by the PodGroup that it names, and by the cluster that it comes from.

In: a pod as the scheduler sees it. Out: a place, a value."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.pod_groups import UNMARKED as UNMARKED

GANG = "Gang"


class Place(NamedTuple):
    """A gang: the PodGroup that its pods name, and the cluster that they come from, "" for the scheduler's own. The
    groups of two sources have nothing in common but their name.

    `UNMARKED` are candidates' Pods that do not say yet where they come from (an earlier version made them)."""

    namespace: str
    name: str
    source: str = ""


class StartProgress(NamedTuple):
    """How far a group's start has come: see `GangStart`."""

    together: bool = False
    failures: int = 0
    until: datetime | None = None


def place_of(pod: Pod) -> Place | None:
    """Return the gang of a pod, None if it names no PodGroup."""
    return Place(pod.namespace, pod.group, pod.source) if pod.group else None
