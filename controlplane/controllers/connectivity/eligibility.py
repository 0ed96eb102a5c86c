"""Defines the judgement on which clusters can take a job whole: one controller judges, another dispatches by it.

In: the judgement of one controller, recorded. Out: one event that two controllers read: the one that judged it, and the
one that nominates clusters. They do not import each other (docs/decisions/0021), so the event stands below both.
"""

from __future__ import annotations

from controlplane.kube.kinds import Kind
from controlplane.log.event import Event
from controlplane.values import Value

#: First word of the streams of judgements.
FIT = "fit"


class Fit(Value, omit_defaults=True, forbid_unknown_fields=True):
    """What was found of one cluster. `reason` and `detail` say why it cannot take the job, "" if it can; `unknown` is
    what could not be looked at there, as text: it counts as fitting. `early`: how many volumes would be bound before a
    pod is placed. `short`: what was not asked of quota and will be used there all the same, as text."""

    reason: str = ""
    detail: str = ""
    unknown: list[str] = []
    early: int = 0
    short: str = ""

    @property
    def fits(self) -> bool:
        """Whether the cluster may be offered the job."""
        return not self.reason


class ClustersJudged(Event):
    """Which clusters can take a job, as far as they are judged; one that is not named is not judged yet. `kind` is
    `Kind.name`.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    clusters: dict[str, Fit]
    reason: str = "FactsOfClusters"


def fit_stream(kind: Kind, namespace: str, name: str) -> str:
    """Return the stream of a job as whoever judges clusters for it sees it."""
    return f"{FIT}/{kind.name}/{namespace}/{name}"
