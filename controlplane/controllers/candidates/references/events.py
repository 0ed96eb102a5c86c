"""What is recorded of the ConfigMaps and Secrets that follow a pod: which versions there are and were copied, never
what they hold.

`named/KIND/NS/NAME` is an object of the source, `copies/CLUSTER/NS` our copies in a namespace of a target; see
`copies`."""

from __future__ import annotations

from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.controllers.candidates.source.observations import SourceObjectGone, SourceObservation
from controlplane.log.event import Event


class NamedObserved(SourceObservation):
    """A ConfigMap or Secret of the source that a placed pod names, or another object (`kind`) that it needs; only its
    version is kept. `unfit`: why it cannot be copied.
    """

    kind: str
    type: str = ""
    unfit: str = ""


class NamedMissing(Event):
    """An object that a placed pod names is not there, or cannot be read: `message` says why."""

    kind: str
    namespace: str
    name: str
    message: str = ""


class CopyObserved(SourceObservation):
    """A copy with our name in a target; `followed` is the version of the source that it was made of, `source_uid` the
    cluster that it says it was made by.
    """

    kind: str
    mark: str = ""
    followed: str = ""
    source_uid: str = ""


class CopyGone(SourceObjectGone):
    """A copy is not in its target any more."""

    kind: str


class OnCopy(CandidateWrite):
    """A write to a copy, which is named by its kind and name."""

    kind: str
    name: str

    @property
    def target(self) -> str:
        """The key of the copy in its stream."""
        return f"{self.kind}/{self.name}"


class CopyDecided(OnCopy):
    """Bring a copy up to a version of the source's object; `uid` is the copy's, "" if there is none yet. `source_uid`:
    which cluster it is to say that it was made by.
    """

    version: str
    uid: str = ""
    source_uid: str = ""


class CopyDropped(OnCopy):
    """Remove a copy, by UID and version: no pod that is placed there names it."""

    uid: str


COPY_EVENTS: tuple[type[Event], ...] = (
    NamedObserved,
    NamedMissing,
    CopyObserved,
    CopyGone,
    CopyDecided,
    CopyDropped,
)
