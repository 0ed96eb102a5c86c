"""The settings of what the log keeps for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from controlplane.kube import durations
from controlplane.settings.rules import Duration, Items, Setting, Text
from controlplane.values import Value

_ENTRY = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?=\S+"
_WHAT = "NAMESPACE=DURATION, such as `team-a=720h`"
_LONGEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class DurationOfEach:
    """A list, empty or not, of a duration for each of several names."""

    def read(self, raw: object) -> tuple[str, ...]:
        """Return the entries in the order given."""
        entries = Items(_WHAT, _ENTRY, 127).read(raw)
        for entry in entries:
            name, _, duration = entry.partition("=")
            try:
                Duration(zero="at once", most=_LONGEST).read(duration)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        names = [entry.partition("=")[0] for entry in entries]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{twice[0]} is there twice")
        return entries

    def show(self, value: tuple[str, ...]) -> list[str]:
        """Return the entries as a list."""
        return list(value)

    def describe(self) -> str:
        """Say the shape."""
        return f"list of {_WHAT}, or empty"


class Retention(Value, rename="camel"):
    """What `controlplane log retention` removes; the service itself removes nothing."""

    bodies: Annotated[
        timedelta,
        Setting(
            Duration(zero="for ever", most=_LONGEST),
            "For how long the specs and statuses of jobs and pods are kept after they were stored and last named. 0: "
            "for ever.",
        ),
    ] = timedelta(0)
    namespaces: Annotated[
        tuple[str, ...],
        Setting(DurationOfEach(), "The same for those of some namespaces, shorter or longer. 0: they go at once."),
    ] = ()
    events: Annotated[
        timedelta,
        Setting(
            Duration(zero="for ever", most=_LONGEST),
            "For how long events are kept in the database: older ones are archived, and of what is over dropped. 0: "
            "for ever.",
        ),
    ] = timedelta(0)
    archive: Annotated[
        str,
        Setting(
            Text(what="the path of a folder", pattern=r"\S(.*\S)?", longest=4096, empty=True),
            "The folder that events are archived to. Without one no event leaves the database.",
        ),
    ] = ""

    @property
    def by_namespace(self) -> Mapping[str, timedelta]:
        """For how long the bodies of some namespaces are kept."""
        pairs = (entry.partition("=") for entry in self.namespaces)
        return {name: durations.parse(duration) for name, _, duration in pairs}
