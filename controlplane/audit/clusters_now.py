"""The clusters as lists and pages show them: plain values for programs, and the cells of a table for people.

In: the folds, what hangs on the clusters that are away, the time. Out: dicts, and short texts made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.audit.shown import clock, span

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from controlplane.audit.absence import Absence
    from controlplane.controllers.multikueue.context import MultiKueuePolicy
    from controlplane.controllers.multikueue.index import WorkloadIndex
    from controlplane.controllers.multikueue.workload_state import WorkloadState

_NAMED = 5  # copies in a sentence


def mass_outage(index: WorkloadIndex) -> dict[str, Any] | None:
    """Return the mass outage that is on, as plain values."""
    outage = index.outage
    if outage.since is None:
        return None
    away, of = index.away()
    return {"since": outage.since, "away": away, "of": of, "holds": outage.holds, "accepted_by": outage.accepted_by}


def in_words(policy: MultiKueuePolicy) -> dict[str, Any]:
    """Return what decides about lost clusters, as plain values."""
    from controlplane.kube.durations import show

    return {
        "execution_policy": policy.execution_policy,
        "worker_lost_timeout": show(policy.worker_lost_timeout),
        "readmission_grace": show(policy.readmission_grace),
        "refusal_pause": show(policy.refusal_pause),
        "requeues_per_minute": policy.requeues_per_minute,
        "mass_outage_share": policy.mass_outage_share,
    }


def describe(index: WorkloadIndex, away: dict[str, Absence], now: datetime) -> list[dict[str, Any]]:
    """Return the clusters as plain values, the management cluster first. Those that were removed are left out unless
    copies are there.
    """
    from controlplane.audit.absence import Absence
    from controlplane.controllers.connectivity.state import Connection

    copies, running, writes = _counts(index)
    unknown = unknown_copies(index.workloads.values())
    found = []
    for name in sorted({*index.clusters, *index.connections, *copies}):
        connection = index.connections.get(name, Connection(name=name))
        if connection.phase == "Removed" and name not in index.clusters and not copies.get(name):
            continue
        absence = away.get(name, Absence())
        found.append(
            {
                "name": name,
                "state": connection.phase,
                "since": connection.since,
                "lost_since": connection.lost_since,
                "grace": _grace(absence, now) if name in away else "",
                "grace_ends_at": absence.ends,
                "stays": absence.stays,
                "stays_for_ever": absence.never,
                "forgotten": connection.forgotten,
                "owed": absence.owed,
                "running": running.get(name, 0),
                "copies": copies.get(name, 0),
                "unknown_copies": unknown.get(name, []),
                "open_writes": writes.get(name, 0),
                "reason": connection.reason,
                "message": connection.message,
                "server_version": connection.server_version,
                "incarnation": connection.incarnation,
                "restores": connection.restores,
                "kinds_off": connection.off,
            }
        )
    return found


def unknown_copies(states: Iterable[WorkloadState]) -> dict[str, list[str]]:
    """Return by cluster the copies of which it is unknown whose they are, NAMESPACE/NAME."""
    found: dict[str, list[str]] = {}
    for state in states:
        for cluster in state.unknown_on:
            found.setdefault(cluster, []).append(f"{state.namespace}/{state.name}")
    return {cluster: sorted(names) for cluster, names in found.items()}


def unknown_line(copies: Sequence[str]) -> str:
    """Return in one sentence which copies on a cluster are left alone, to follow its name."""
    rest = f" and {len(copies) - _NAMED} more" if len(copies) > _NAMED else ""
    return (
        "has copies with our origin of which this log knows nothing, and which do not say that they were made for this "
        f"management cluster: {', '.join(copies[:_NAMED])}{rest}. They are left alone."
    )


def outage_line(outage: dict[str, Any]) -> str:
    """Return a mass outage in one line, with what to do about it."""
    away = f"{len(outage['away'])} of {outage['of']} clusters are away ({', '.join(outage['away'])})"
    head = f"Mass outage since {clock(outage['since'])} UTC: {away}."
    if outage["holds"]:
        return f"{head} Nothing is taken from them; `controlplane clusters accept-outage` if they are really gone."
    return f"{head} Accepted by {outage['accepted_by']}: Workloads are taken from them as graces end."


def _grace(absence: Absence, now: datetime) -> str:
    if absence.ends is None:
        return "never"
    return "over" if now >= absence.ends else "left"


def grace_cell(one: dict[str, Any], now: datetime) -> str:
    """Return the grace in words: the earliest end, and how many Workloads stay whatever happens."""
    if one["grace"] in ("", "never"):
        return str(one["grace"])
    shown = "over" if one["grace"] == "over" else span(one["grace_ends_at"] - now)
    return f"{shown}, never for {one['stays_for_ever']}" if one["stays_for_ever"] else shown


def identity_cell(incarnation: str, restores: int) -> str:
    """Return which cluster answers, and how often it was restored, as it fits into a column."""
    from controlplane.controllers.connectivity.state import incarnation_name

    return incarnation_name(incarnation[:8], restores)


def copies_and_runs(states: Iterable[WorkloadState]) -> tuple[Counter[str], Counter[str]]:
    """Return by cluster how many of some Workloads have a copy there, and of how many of these the job is unsuspended;
    those that are admitted and not dispatched run on the management cluster.
    """
    from collections import Counter

    from controlplane.controllers.connectivity.events import MANAGEMENT

    copies, running = Counter[str](), Counter[str]()
    for state in states:
        copies.update(state.remotes.keys())
        jobs = {cluster: remote.job for cluster, remote in state.remotes.items()}
        running.update(name for name, job in jobs.items() if job is not None and not job.suspended and not job.finished)
        running.update([MANAGEMENT] if _is_admitted_here(state) else ())
    return copies, running


def _is_admitted_here(state: WorkloadState) -> bool:
    local = state.local
    if local is None or local.cluster_name or state.attempt or local.is_true("Finished") or local.is_true("Evicted"):
        return False
    return local.is_true("Admitted")


def _counts(index: WorkloadIndex) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return by cluster: Workloads with a copy there, those of them whose job is unsuspended, decided writes without an
    outcome.
    """
    from collections import Counter

    copies, running = copies_and_runs(index.workloads.values())
    writes: Counter[str] = Counter()
    for state in index.workloads.values():
        writes.update(effect.decision.cluster for effect in state.effects.values())
    slots = [f"cluster/{name}" for name in index.clusters] + [f"admissioncheck/{name}" for name in index.checks]
    open_slots = [effect for stream in slots if (effect := index.slots.get(stream).effect) is not None]
    writes.update(effect.decision.cluster for effect in open_slots)
    return dict(copies), dict(running), dict(writes)
