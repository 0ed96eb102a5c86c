"""What is said of classes of events holds for those below them, and `other` for the rest."""

from __future__ import annotations

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import CheckStateDecided, StatusRelayDecided
from controlplane.log.event import Event
from controlplane.values import ByClass
from tests.support.rows import each


class Seen(Event):
    """An event."""


class SeenWell(Seen):
    """One below it."""


class SeenBest(SeenWell):
    """And one below that."""


class Decided(Event):
    """An event of which nothing is said."""


def test_a_class_is_what_is_said_of_the_nearest_one_above_it() -> None:
    table = ByClass({Seen: "seen", SeenWell: "well"}, other="nothing")
    assert [table[one] for one in (Seen, SeenWell, SeenBest, Decided, int, object)] == [
        "seen",
        "well",
        "well",
        "nothing",
        "nothing",
        "nothing",
    ]


def test_none_can_be_said() -> None:
    table: ByClass[bool | None] = ByClass({Seen: None}, other=True)
    assert [table[one] for one in (SeenBest, Decided)] == [None, True]


@each(
    "kind",
    [
        CheckStateDecided,
        StatusRelayDecided,
        observations.CloneGone,
        observations.ObservationRefused,
        observations.RemoteJobGone,
        observations.RemoteJobObserved,
        observations.WorkloadGone,
        observations.WorkloadObserved,
    ],
)
def test_a_class_that_folds_ask_for_by_itself_has_none_below_it(kind: type) -> None:
    assert kind.__subclasses__() == []
