"""Keeps which clusters can take each job, as the controller that knows its kind judged it.

In: the events of `fit/KIND/NS/NAME`. Out: which clusters can take a job, None where no controller judges its kind. A
judgement on another job that had the name before counts for nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controlplane.controllers.connectivity.eligibility import ClustersJudged, Fit
from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.controllers.multikueue.observe import job_stream
from controlplane.log.event import Recorded


class Judgements:
    """The newest judgement on each job."""

    def __init__(self) -> None:
        self._said: dict[str, ClustersJudged] = {}

    def fold(self, recorded: Recorded) -> str:
        """Take one more event; return the stream of the job that it is about, "" if it is no judgement."""
        event = recorded.event
        if not isinstance(event, ClustersJudged):
            return ""
        stream = job_stream(event.kind, event.namespace, event.name)
        self._said[stream] = event
        return stream

    def forget(self, stream: str) -> None:
        """Forget a job that is gone."""
        self._said.pop(stream, None)

    def of(self, job: JobObserved | None, judged: Collection[str]) -> Mapping[str, Fit] | None:
        """Return the judgement on each cluster; `judged` are the kinds that a controller judges
        sooner or later.
        """
        if job is None:
            return None
        found = self._said.get(job_stream(job.kind, job.namespace, job.name))
        if found is not None and found.uid == job.uid:
            return found.clusters
        return {} if job.kind in judged else None
