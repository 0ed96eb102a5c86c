"""Puts together what a job says and what the runtime says that its pods rest on.

In: what was seen of both. Out: a job with its pod sets, which streams rest on a runtime. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.pod_sets import pod_set_facts
from controlplane.controllers.jobframework.runtime_events import JobRuntimeGone, JobRuntimeObserved
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.generic_job import RUNTIME
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import Json
from controlplane.log.event import Recorded

STREAM = f"{WORD}/runtime/"
_replace = msgspec.structs.replace


def composed(event: events.QueuedJobObserved, adapter: JobKind, obj: Json) -> events.QueuedJobObserved:
    """Return a job with what its pods ask for and how they stand, or why none can be made of it."""
    found: dict[str, Any]
    try:
        found = {
            "pod_sets": [pod_set_facts(one) for one in adapter.facts_sets(obj)],
            "pod_priority_class": adapter.priority_class(obj),
            "ready": adapter.ready(obj),
            "reclaimable": adapter.reclaimable(obj),
            "problem": "",
        }
    except UNFIT as error:
        said = str(error) or type(error).__name__
        found = {"pod_sets": [], "pod_priority_class": "", "ready": False, "reclaimable": None, "problem": said}
    refused = inelastic(found["pod_sets"]) if event.elastic else ""
    if refused:
        found |= {"pod_sets": [], "problem": refused}
    return _replace(event, **found)


def inelastic(pod_sets: Iterable[events.PodSetFacts]) -> str:
    """Return why a job cannot be elastic, in the words of Kueue's webhook (kubernetes-sigs/kueue
    pkg/controller/jobs/job/job_webhook.go, ff69552e), "" if it can."""
    found = list(pod_sets)
    if any(one.min_count is not None for one in found):
        return "partial admission and elastic job cannot be used together"
    asked = [kind for kind in ("required", "preferred") if any(one.topology_request.get(kind) for one in found)]
    return f"{asked[0]} topology is not supported with elastic jobs" if asked else ""


class Runtimes:
    """The runtimes that were seen, and the streams of the jobs that rest on each."""

    def __init__(self) -> None:
        self.seen: dict[str, JobRuntimeObserved] = {}
        self.at: dict[str, int] = {}
        self._resting: dict[str, dict[str, None]] = {}

    def fold(self, recorded: Recorded) -> Iterable[str]:
        """Take one more event of a runtime; return the streams of the jobs that rest on it."""
        key, event = recorded.stream.removeprefix(STREAM), recorded.event
        if isinstance(event, JobRuntimeObserved):
            self.seen[key], self.at[key] = event, recorded.position
        elif isinstance(event, JobRuntimeGone) and key in self.seen and self.seen[key].uid == event.uid:
            del self.seen[key], self.at[key]
        return tuple(self._resting.get(key, ()))

    def rests(self, stream: str, before: str, after: str) -> None:
        """Remember on which runtime the job of a stream rests; "" for none."""
        if before and before != after:
            left = self._resting.get(before, {})
            left.pop(stream, None)
            if not left:
                self._resting.pop(before, None)
        if after:
            self._resting.setdefault(after, {})[stream] = None

    def complete(self, job: events.QueuedJobObserved, adapter: JobKind) -> events.QueuedJobObserved:
        """Return a job that rests on a runtime, with its pod sets as the runtime is now."""
        runtime = self.seen.get(job.rests_on)
        if runtime is None:
            return composed(_replace(job, runtime=""), adapter, job.unresolved)
        return composed(_replace(job, runtime=runtime.body), adapter, {**job.unresolved, RUNTIME: runtime.spec})
