"""Says which event a judgement on a run rests on: of all that had to be so, what came last.

In: the clusters as they were judged before and are judged now. Out: what the words of the table stand for; positions of
the run are `run.FACET`, those of a worker `CLUSTER.FACET`. Pure. A judgement that came because something was not seen
in time rests on what began the time: the run, or the connection."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.connectivity.eligibility import FIT, ClustersJudged, Fit
from controlplane.controllers.coscheduling.feasibility.decide import Judged
from controlplane.controllers.coscheduling.feasibility.observe import WORKER
from controlplane.runtime.facets import ANY, Table, Words

_FACETS = ("nodes", "classes", "placeholders", "flags", "view", "looks")
CAUSES: Table = {
    ClustersJudged: {ANY: ("run.asked", "run.charge", "{late}.view", *(f"{{changed}}.{facet}" for facet in _FACETS))}
}
"""What a judgement may rest on: the run, and what is known of the clusters whose judgement changed."""

MAY_CAUSE: Mapping[str, frozenset[str]] = {FIT: frozenset((FIT, WORKER, "cluster"))}
"""First words of the streams on which there is the cause of what is decided on a stream, by its first word."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a judgement on another rests on, by their names."""
    first, of = cause.partition("/")[0], stream.partition("/")[0]
    return first in MAY_CAUSE.get(of, frozenset()) and (first != of or cause == stream)


def words_of(before: Mapping[str, Fit], after: Mapping[str, Fit], judged: Mapping[str, Judged]) -> Words:
    """Return what the words in the table stand for: the clusters whose judgement changed, those among them `late` that
    are judged for the first time because what is missing did not come in time.
    """
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    late = {name for name in changed - before.keys() if name in judged and judged[name].waited}
    return {"changed": changed - late, "late": late}
