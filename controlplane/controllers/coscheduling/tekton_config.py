"""Keeps what Tekton's ConfigMaps say, as far as placeholders care.

In: observations of `feature-flags` and `config-defaults`, and what was said of them. Out: the flags and the defaults
that hold for runs that begin now, and for either of the two streams what is to be said of a ConfigMap that cannot be
used: until it can, what it said last holds."""

from __future__ import annotations

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.causes import CAUSES
from controlplane.controllers.coscheduling.events import FlagsRefused
from controlplane.controllers.coscheduling.flags import Flags, effective
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import Decided
from controlplane.runtime.facets import cause_of
from controlplane.runtime.observations import is_end_of_another


class TektonConfig:
    """The `flags`, and the `defaults`: the reference of the body of what the other ConfigMap holds, "" for none."""

    GIVEN = ("_old_worker",)

    def __init__(self, *, old_worker: bool) -> None:
        self.flags, self.defaults = Flags(), ""
        self._old_worker = old_worker
        self._uids: dict[str, str] = {}
        self._refusals: dict[str, str] = {}
        self._refused_at: dict[str, int] = {}
        self._said: dict[str, str] = {}
        self._versions: dict[str, int] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of the stream of a ConfigMap."""
        stream, event = recorded.stream, recorded.event
        self._versions[stream] = recorded.version
        if isinstance(event, FlagsRefused):
            self._said[stream] = event.message
            return
        if is_end_of_another(self._uids, stream, event):
            return
        before = self._refusals.get(stream, "")
        self._refusals[stream] = refusal = self._taken(stream, event)
        if refusal != before:
            self._refused_at[stream] = recorded.position
        if not refusal:
            self._said.pop(stream, None)

    def _taken(self, stream: str, event: object) -> str:
        """Take what a ConfigMap says, or that it is gone; return what is wrong with it."""
        match event:
            case observations.FlagsObserved() | observations.FlagsGone():
                data = event.data if isinstance(event, observations.FlagsObserved) else {}
                found = effective(self.flags, data, old_worker=self._old_worker)
                self.flags = found.flags
                return str(found.problem) if found.problem else ""
            case observations.DefaultsObserved():
                if event.problems:
                    return "\n".join(f"{one.object}: {one.field}: {one.what}; {one.todo}" for one in event.problems)
                self.defaults = event.defaults
            case _:
                self.defaults = ""
        return ""

    def decide(self, stream: str, cluster: str) -> Decided:
        """Return what is to be said of a ConfigMap that was not said of it."""
        message = self._refusals.get(stream, "")
        if not message or self._said.get(stream) == message:
            return Decided()
        event = FlagsRefused(message=message, reason=CoschedulingReason.BAD_FLAGS)
        caused_by = cause_of(CAUSES, event, {"refusal": self._refused_at.get(stream, 0)}, {})
        said = NewEvent(stream=stream, event=event, cluster=cluster, caused_by=caused_by)
        return Decided([said], self._versions.get(stream, 0))
