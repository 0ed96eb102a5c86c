"""Finds the event that a decision rests on: the last of all that had to be so.

In: a decision, the positions of its Workload and of what is around it. Out: a position in the log, for `caused_by`.
Pure: one table, and a rule for which streams may cause what. A decision that only time let ripen, such as the end of a
grace, rests on what began the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT
from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.context_facets import Around
from controlplane.controllers.multikueue.facets import facet_of
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.runtime import facets
from controlplane.runtime.facets import ANY, FacetPositions

R = WorkloadReason
# What a removal waits for, whatever its reason: the copy, and that its cluster is in view.
_THERE = ("{c}/w.present", "cluster/{c}.view")
_GONE = ("{any}/w.present", "{any}/j.present", "{any}/j.inactive")
_UNFIT = ("{c}/w.deleting", "{c}/w.active", "{c}/w.finished", "{c}/w.spec", "w.spec")
_REMOVALS: Mapping[str, tuple[str, ...]] = {
    R.ANOTHER_CLUSTER_WON: ("winner", "w.cluster", "judged/{c}"),
    R.FINISHED: ("w.finished", "{c}/j.finished"),
    R.QUOTA_NOT_RESERVED: ("w.quota", "judged/{c}"),
    R.LOCAL_DELETED: ("w.present", "w.deleting"),
    R.ORPHANED: ("{c}/j.present",),
    R.POD_GONE: ("job.present", "{c}/j.present"),
    R.NOT_NOMINATED: ("route", "fit", "refused/{c}", "w.nominated"),
    R.SPEC_DIFFERS: ("w.spec", "w.priority", "{c}/w.spec", "{c}/w.priority"),
    R.STALE_COPY: (*_UNFIT, "{c}/w.evicted", "{c}/j.present", "judged/{c}"),
    R.DRAINING: ("w.evicted", "{c}/j.present"),
    R.OUT_OF_SYNC: ("{c}/w.finished",),
}
_ASKED = (
    "w.quota",
    "w.evicted",
    "w.checks",
    "w.cluster",
    "job.present",
    "job.selector",
    "route",
    "views",
    "fit",
    "refused/{any}",
)
CAUSES: Mapping[type[events.WorkloadDecision], Mapping[str, tuple[str, ...]]] = {
    events.NominationDecided: {
        R.AVAILABLE_CLUSTERS: _ASKED,
        R.FIRST_ROUND: _ASKED,
        R.BEST_SCORES: _ASKED,
        R.NEXT_ROUND: (*_ASKED, "w.nominated"),
        R.COMPONENT_FOLLOWS: (*_ASKED, "w.nominated"),
        R.NOMINATED: ("winner", "w.nominated"),
    },
    events.AttemptBegun: {R.NOMINATED_BY_ANOTHER: (*_ASKED, "w.nominated"), R.SLICE_FOLLOWS: _ASKED},
    events.GroupPodChosen: {R.POD_ENDED: ("job.status", "job.present", "w.quota", "{any}/j.present")},
    events.ClustersScored: {ANY: (*_ASKED, "w.nominated")},
    events.CloneDecided: {
        R.SLICE_FOLLOWS: ("w.quota", "w.cluster", *_THERE, "{c}/j.present"),
        R.NOMINATED: (*_ASKED, "w.nominated", *_THERE, "{c}/j.present"),
    },
    events.GateOpeningDecided: {ANY: ("{c}/w.blocked", *_THERE)},
    events.WinnerChosen: {ANY: ("{c}/w.admitted", "w.nominated", "released", "judged/{c}")},
    events.WinnerReleased: {
        R.EVICTED_BEFORE_READY: ("{c}/w.evicted", "{c}/w.admitted", *_UNFIT),
        R.GONE_BEFORE_READY: ("{c}/w.present", "{c}/w.deleting", "{c}/j.present"),
        R.LOST_BEFORE_READY: ("cluster/{c}.lost", "cluster/{c}.forgotten", "cluster/{c}.view"),
    },
    events.ClusterRefused: {
        R.REJECTED_BY_WORKER: ("{c}/w.active", "{c}/w.evicted"),
        R.PUT_OFF_BY_WORKER: ("{c}/w.evicted",),
        R.ALTERED_BY_WORKER: ("{c}/w.spec", "w.spec"),
        R.OUT_OF_SYNC: ("{c}/w.finished",),
        ANY: ("failed/{c}/Job",),
    },
    events.CopyJudged: {
        R.FINISHED: ("w.finished", "cluster/{c}.view"),
        R.STILL_THE_WINNER: ("cluster/{c}.view",),
        R.STALE_COPY: (*_UNFIT, "w.active", "cluster/{c}.view"),
        R.FINISHED_MEANWHILE: ("{c}/w.finished", "cluster/{c}.view"),
        R.FENCED: ("winner", "w.cluster", "cluster/{c}.view"),
        R.ANOTHER_CLUSTER_WON: ("winner", "w.cluster", "cluster/{c}.view"),
        ANY: ("w.quota", "w.evicted", "cluster/{c}.view"),
    },
    events.JobCreationDecided: {
        ANY: ("winner", "w.nominated", "{c}/w.admitted", "{other}/w.present", "{other}/j.present")
    },
    events.CheckStateDecided: {
        R.ADMITTED_ON_WORKER: ("{c}/j.present", "{c}/w.admitted", "winner"),
        R.TOPOLOGY_ASSIGNED: ("{c}/w.topology", "w.topology", "w.cluster"),
        R.REMOTE_EVICTED: ("{c}/w.evicted",),
        R.REMOTE_GONE: ("{c}/w.present", "{c}/j.present", *_UNFIT, "route", "absent/{c}"),
        R.REMOTE_LOST: ("cluster/{c}.lost", "cluster/{c}.forgotten", "cluster/{c}.view", "outage"),
        R.OUT_OF_SYNC: ("{c}/w.finished",),
        R.NO_CLUSTER_NAME: ("w.checks", "w.cluster"),
        R.CONTRADICTING_POLICIES: ("job.policy", "queue", "w.checks", "w.present"),
        R.INVALID_CLUSTER_SELECTOR: ("job.selector", "w.checks", "w.present"),
        R.NOT_MANAGED: ("job.managed", "w.checks", "w.present"),
        R.NO_ADAPTER: ("w.checks", "w.present"),
        R.ELASTIC: ("w.checks", "w.present"),
        R.NO_LONGER_REJECTED: ("job.managed", "job.policy", "queue", "w.checks"),
        R.CLUSTERS_JUDGED: ("fit",),
        R.JOB_NAME_TAKEN: ("refused/{c}",),
    },
    events.StatusRelayDecided: {
        R.STATUS_CHANGED: ("{c}/j.status", "{c}/j.suspended", "job.suspended"),
        R.FINAL_STATUS: ("{c}/j.status", "{c}/j.finished", "{c}/w.finished"),
        R.NOTHING_RUNS: ("w.evicted", "w.present", "w.deleting", *_GONE, "job.suspended"),
    },
    events.FinishDecided: {ANY: ("{c}/w.finished", "judged/{c}", "job.ended", "job.size", "failed/@management/Job")},
    events.NamesClearDecided: {ANY: ("w.quota", "w.evicted", "w.cluster", "w.nominated")},
    events.RemovalDecided: {reason: (*keys, *_THERE) for reason, keys in _REMOVALS.items()},
    events.FinalizerRemovalDecided: {reason: (*keys, *_THERE) for reason, keys in _REMOVALS.items()},
    events.FinalizerAdditionDecided: {
        reason: (*keys, *_THERE, "{c}/j.finalizing") for reason, keys in _REMOVALS.items()
    },
    events.CloneUpdateDecided: {ANY: ("w.priority", "{c}/w.priority")},
    events.SpecUpdateDecided: {
        R.SLICE_ADMITTED: ("{c}/w.admitted", "w.size", "job.size"),
        R.SIZE_CHANGED: ("w.size", "{c}/w.size", "job.size", "{c}/j.size"),
        ANY: ("job.synced", "{c}/j.synced"),
    },
    events.DeactivationDecided: {ANY: ("w.evicted", "{c}/w.present", "cluster/{c}.view")},
}
"""What each kind of decision may rest on, by its reason; `{c}` is the cluster that it is about."""

MAY_CAUSE: Mapping[str, frozenset[str]] = {
    "workload": frozenset(
        (
            "workload",
            "job",
            "cluster",
            "admissioncheck",
            "multikueueconfig",
            "clusterqueue",
            "fleet",
            "service",
            "fit",
            "refused",
        )
    ),
    "cluster": frozenset(("cluster", "service")),
    "admissioncheck": frozenset(("admissioncheck", "multikueueconfig", "cluster", "service")),
    FLEET_STREAM: frozenset(("cluster", "fleet", "service")),
}
"""Kinds of the streams on which there is the cause of what is decided on a stream, by its kind."""


def may_cause(cause: str, stream: str, job: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on; `job` is the stream of the Workload's
    job, if known.
    """
    kind, of = cause.partition("/")[0], stream.partition("/")[0]
    if kind not in MAY_CAUSE.get(of, frozenset()):
        return False
    if kind == of == "workload":
        return cause == stream
    if kind == "refused":
        return cause.endswith(stream.removeprefix(of))
    return kind not in ("job", "fit") or not job or cause.partition("/")[2] == job.partition("/")[2]


def causes_of(decisions: Sequence[events.WorkloadDecision], state: WorkloadState, around: Around) -> list[int]:
    """Return the causes of what was decided in one pass: what rests on another decision of it has no position of that
    yet, and rests on what that one rests on."""
    return facets.causes_of(decisions, state.positions, lambda one, own: cause_of(one, state, own, around), facet_of)


def cause_of(decision: events.WorkloadDecision, state: WorkloadState, own: FacetPositions, around: Around) -> int:
    """Return the position of the event that a decision rests on. `own` are the Workload's positions, `around` those
    outside its stream. What no rule knows rests on the newest event of the stream."""
    cluster = about(decision, state)
    words: facets.Words = {"c": (cluster,), "any": _NamedClusters(own), "other": _NamedClusters(own, cluster)}
    names = facets.names_of(CAUSES, decision, words)
    return max(facets.newest(each, names) for each in (own, *around)) or state.position


class _NamedClusters(Iterable[str]):
    """The clusters that positions are named by, but one; looked for once a rule asks for them, which few do."""

    def __init__(self, own: FacetPositions, but: str = "") -> None:
        self._own, self._but = own, but

    def __iter__(self) -> Iterator[str]:
        found = {where for name in self._own for where in (name.rpartition("/")[0], name.rpartition("/")[2]) if where}
        return iter(found - {self._but})


def about(decision: events.WorkloadDecision, state: WorkloadState) -> str:
    """Return the worker that a decision is about, also one that is written to the management cluster; "" if none."""
    own = str(getattr(decision, "cluster", ""))
    if own not in ("", MANAGEMENT):
        return own
    placed = state.local.cluster_name if state.local is not None else ""
    return str(getattr(decision, "winner", "") or getattr(decision, "source", "")) or placed or state.winner
