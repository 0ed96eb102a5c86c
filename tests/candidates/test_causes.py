"""`caused_by` on the source side: of each decision that can be taken, the one event that it rests on, among much that
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.candidates.references.events import (
    COPY_EVENTS,
)
from controlplane.controllers.candidates.source import events, gang_events
from controlplane.controllers.candidates.source.causes import CAUSES, may_cause
from controlplane.runtime.facets import ANY
from tests.candidates.cause_copies import COPIES
from tests.candidates.cause_nodes import NODES
from tests.candidates.cause_tables import ELECTIONS, ENDS, GANGS, PERMITS, REQUESTS, SHOWN
from tests.candidates.told import Told
from tests.support.rows import each

TABLE = [*ELECTIONS, *REQUESTS, *PERMITS, *ENDS, *SHOWN, *GANGS, *COPIES, *NODES]


@each(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[events.CandidateDecision], reason: str, story: Callable[[], Told]) -> None:
    told = story().noise().settle()
    rows = [row for row in told.rows[told.expected :] if type(row.event) is decision and row.event.reason == reason]
    # Of a gang the same is decided for each of its pods: what is asked is that of the pod that it happened to.
    same = [row for row in rows if row.stream == told.rows[told.expected - 1].stream]
    found = [row.caused_by for row in same or rows if getattr(row.event, "name", "keys") == "keys"]
    assert found, [type(row.event).__name__ for row in told.rows]
    described = {at: told.rows[at - 1] for at in (found[0], told.expected)}
    assert found[0] == told.expected, described
    for number, row in enumerate(told.rows, 1):
        if isinstance(row.event, events.CandidateDecision):
            assert 0 < row.caused_by < number
            assert may_cause(told.rows[row.caused_by - 1].stream, row.stream), (row, told.rows[row.caused_by - 1])


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    rows = {(decision, reason) for decision, reasons in CAUSES.items() for reason in reasons if reason != ANY}
    assert rows <= told
    for decision, reason in told:
        assert {reason, ANY} & CAUSES[decision].keys()


def test_every_decision_has_a_row() -> None:
    every = {
        one
        for one in (*events.EVENTS, *gang_events.GANG_EVENTS, *COPY_EVENTS)
        if issubclass(one, events.CandidateDecision)
    }
    assert every <= CAUSES.keys()
