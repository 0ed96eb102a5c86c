"""What a controller brings to a process: its part of the log, what it wants to see of which cluster and may do there,
and what it knows already.

A controller's folder has a function `host` that returns it, or nothing if the settings leave the controller out; its
manifest names it. The loop is made of what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeVar

from controlplane.kube.kinds import Json
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.controller import AnticipatingController, Controller, ReadingController
from controlplane.settings.model import Settings
from controlplane.values import Value


@dataclass(frozen=True, slots=True)
class Registration:
    """A controller and its part of the log.

    `owns` and `hears` are first words of streams (`workload` of `workload/NS/NAME`). `identities` is a prefix that sets
    the identities of its observations apart from those of the others, which may see the same object; "" for the one
    whose identities stay as they are, since the log has them already. `reading` is the controller again if its
    decisions need reads (docs/decisions/0017), `anticipating` if it can decide on what is not committed yet (0028)."""

    name: str
    controller: Controller
    owns: frozenset[str]
    hears: frozenset[str] = frozenset()
    identities: str = ""
    reading: ReadingController | None = None
    anticipating: AnticipatingController | None = None


class ShownVersions(Protocol):
    """The versions of objects that were seen on clusters, each since the cluster's incarnation began."""

    def of(self, cluster: str, kind: str) -> int:
        """Return the highest resourceVersion of a kind, 0 if none was seen."""

    def listed(self, cluster: str, kind: str) -> bool:
        """Whether the kind was listed as a whole."""

    def is_gone(self, cluster: str, uid: str) -> bool:
        """Whether an object was seen to go."""


class KnownObjects(Protocol):
    """What a controller knows of objects, as far as reflectors begin with it."""

    @property
    def newest(self) -> ShownVersions:
        """The versions that were seen."""

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""


class GaugeReading(NamedTuple):
    """What one gauge of `controlplane.telemetry.Metrics` is set to, by its name there and its labels."""

    gauge: str
    value: float
    labels: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedController:
    """A controller in a process. `home` and `workers` is what it watches on the management cluster, and on each other
    one; `wants` is what it watches there besides, by what it has seen; `follows`: whether other clusters are connected
    to for it.

    `unseen` says what it does not see of what its decisions rest on, "" if it sees all. `resting_on` counts what waits
    for word from a cluster that is away; `noun` is what it counts. `gauges` reads off its states what metrics show of
    them."""

    registration: Registration
    home: Sequence[WatchSpec] = ()
    workers: Sequence[WatchSpec] = ()
    wants: Callable[[], Sequence[WatchSpec]] | None = None
    knows: KnownObjects | None = None
    follows: bool = False
    unseen: Callable[[], str] | None = None
    resting_on: Callable[[str, datetime], int] | None = None
    noun: str = ""
    gauges: Callable[[], Iterable[GaugeReading]] | None = None


C = TypeVar("C")


class FindController(Protocol):
    """Finds the hosted controller of a type."""

    def __call__(self, kind: type[C], /) -> C | None:
        """Return that of the present term; None if none is hosted, or no term has begun."""


class ReviewHook(Value):
    """What answers the admission reviews at a path. Whatever stays in doubt is let through with a warning.

    `knows` says whether what a review rests on has been folded; if not it is waited for, `patience` seconds at most."""

    path: str
    answer: Callable[[Json], Json]
    knows: Callable[[Json], bool] = lambda review: True
    patience: float = 0.0


class Endpoint(Value):
    """Where the webhook is served, with which certificate; `section`: the settings that say so, `key` the one that
    names the certificate."""

    section: str
    key_of_certificate: str
    certificate: str
    key: str
    address: str
    port: int


Place = Literal["management", "worker", "sending", "invited"]
"""Where rights are: on the management cluster, on a worker, in each namespace of the management cluster that sends
pods, or in each namespace of a target in which a source may have candidates."""


class GrantedRights(Value):
    """A manifest of `deploy` that counts `when` the settings say so; it is the one list of the rights themselves.

    `namespace`: where its Roles are by the settings, else as it says; `role`: the one that is meant, "" for all in it.
    `resources`: those that are meant, empty for all in it. `bound`: whether the manifest, or its folder, binds it
    too."""

    manifest: str
    when: Callable[[Settings], object]
    place: Place = "management"
    namespace: Callable[[Settings], str] | None = None
    role: str = ""
    needed: bool = True
    resources: frozenset[str] = frozenset()
    bound: bool = True


def named(controller: str) -> Callable[..., bool]:
    """Return whether the settings, and whatever else is given, name a controller."""
    return lambda settings, *_: controller in settings.run.controllers
