"""A source pod's status never goes back, and only its delegate writes it (S6, S11).

In: source pods as the source's API server commits them, and the statuses of its log. Out: a violation.
"""

from __future__ import annotations

from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.delegate_status import rank, restarts_of
from controlplane.controllers.candidates.source.events import StatusShown
from controlplane.dst.engine.trace import Trace
from controlplane.kube.kinds import PODS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit

BACK = "a source pod's status does not go back"
WHOSE = "only the delegate's status is shown"


class PodStatuses:
    """What source pods have shown. `placing` is the fold of the source's log."""

    def __init__(self, trace: Trace, placing: SourceController) -> None:
        self._trace, self._placing = trace, placing

    def follow(self, placing: SourceController) -> None:
        """Look at another fold of the source's log: that went back."""
        self._placing = placing

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a source pod."""
        record, before = commit.record, commit.previous
        if record.kind != PODS or before is None or commit.type == "DELETED" or before.uid != record.uid:
            return
        was, status = before.obj["status"], record.obj["status"]
        then, now = str(was.get("phase")), str(status.get("phase"))
        if rank(now) < rank(then) or (rank(then) == 2 and was != status):
            self._trace.violate(BACK, f"{record.name} was {then} and is {now}")
        counts = restarts_of(status)
        if any(counts.get(name, 0) < count for name, count in restarts_of(was).items() if name in counts):
            self._trace.violate(BACK, f"{record.name} has restarted less often than it had")

    def before_fold(self, recorded: Recorded) -> None:
        """Look at a status that was decided on."""
        event = recorded.event
        if not isinstance(event, StatusShown):
            return
        state = self._placing.sources[recorded.stream]
        shown = state.shown
        if event.status and not event.failed and event.source != state.delegate and event != shown:
            ended = shown is not None and rank(shown.phase) == 2 and event.source == shown.source
            if not ended:
                self._trace.violate(WHOSE, f"{recorded.stream} shows {event.source}, and {state.delegate} is it")
        if shown is None or (shown.uid, shown.source) != (event.uid, event.source):
            return
        if event.sequence < shown.sequence:
            self._trace.violate(WHOSE, f"{recorded.stream} shows {event.sequence} after {shown.sequence}")
