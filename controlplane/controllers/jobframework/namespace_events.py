"""Defines what is recorded of namespaces, where it depends on them whether jobs are looked after."""

from __future__ import annotations

from controlplane.log.event import Event
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class JobNamespaceObserved(ObjectObserved):
    """A namespace, with its labels."""

    deleting: bool = False
    labels: dict[str, str] = {}


class JobNamespaceGone(ObjectVanished):
    """The namespace was deleted."""


EVENTS: tuple[type[Event], ...] = (JobNamespaceObserved, JobNamespaceGone)
