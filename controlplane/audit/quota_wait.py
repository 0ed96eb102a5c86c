"""Why a Workload waits for quota, where this service decides on it: from the log alone, now or at a time.

In: a reader, the engine's settings, a Workload's name. Out: a `Wait`, or None where it waits for no quota; and the same
as plain values and as lines for people. Of Workloads only those are folded that wait for quota or have some."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from controlplane.audit import quota_estimate, quota_runs
from controlplane.audit.case import STAMP
from controlplane.audit.quota_load import load
from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.quota.admission.events import (
    AdmissionInputRefused,
    AdmissionWorkloadGone,
    ReservationRetried,
    WorkloadPreemptionDecided,
)
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.observe import refusals_of, stream_of
from controlplane.controllers.quota.admission.repeated_preemption import KEPT, preempted, tried_from
from controlplane.controllers.quota.admission.state import WorkloadState
from controlplane.controllers.quota.engine.amounts import spelled
from controlplane.controllers.quota.engine.explain import FlavorOption, Shortage, Wait, explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube import kinds

_MOST_NAMED = 3


def waits(reader: LogReader, settings: EngineSettings, namespace: str, name: str, now: datetime) -> Wait | None:
    """Return why a Workload waits for quota; None if it waits for none, or Kueue decides on it."""
    index = load(reader, settings, namespace, name)
    return explain(index.engine, f"{namespace}/{name}", now.timestamp()) if index is not None else None


def answer(
    reader: LogReader, settings: EngineSettings, namespace: str, name: str, now: datetime
) -> dict[str, Any] | None:
    """Return why a Workload waits for quota, and when it would have it, as plain values; None as `waits` does. One that
    waits for an object that cannot be read, or whose devices cannot be counted, has position 0.
    """
    index, key = load(reader, settings, namespace, name), f"{namespace}/{name}"
    wait = explain(index.engine, key, now.timestamp()) if index is not None else None
    if index is None or wait is None:
        unread = _uncounted(index, key) or _unread(reader, index, namespace, name)
        return {**plain(Wait("", 0, 0, (), False, inadmissible=unread)), "estimate": None} if unread else None
    if paused := _paused(reader, namespace, name, now):
        wait = replace(wait, inadmissible=paused)
    found = quota_estimate.estimate(index, quota_runs.recorded(reader), key, wait, now)
    return {**plain(wait), "estimate": quota_estimate.plain(found, now)}


def _paused(reader: LogReader, namespace: str, name: str, now: datetime) -> str:
    """Return that a Workload was preempted so often that it is not tried for a while, "" if that is not so."""
    streams = [stream_of(kinds.WORKLOADS, namespace, name)]
    types = [WorkloadPreemptionDecided.__name__, ReservationRetried.__name__]
    # Of another one that had its name before, nothing counts.
    ends = reader.events(Filter(streams=streams, types=[AdmissionWorkloadGone.__name__]), limit=1, newest=True)
    wanted = Filter(streams=streams, types=types, after=max((one.position for one in ends), default=0))
    state = WorkloadState()
    for recorded in reader.events(wanted, limit=2 * KEPT, newest=True):
        if isinstance(recorded.event, WorkloadPreemptionDecided):
            state = preempted(state, recorded.recorded_at)
        else:
            state = msgspec.structs.replace(state, paused=False)
    until = tried_from(state.preempted) if state.paused else None
    if until is None or until <= now:
        return ""
    often = f"it was preempted {len(state.preempted)} times within ten minutes"
    return f"{often}, and is tried again from {until:{STAMP}} on"


def _uncounted(index: AdmissionIndex | None, key: str) -> str:
    """Return why the devices of a Workload cannot be counted, "" if they can: as its condition says it, if that says so
    yet."""
    refusal = index.devices.refused.get(key, "") if index is not None else ""
    state = index.workloads.get(key) if index is not None else None
    if not refusal or state is None or state.observed is None:
        return refusal
    conditions = {one.get("type"): one for one in state.observed.status.get("conditions") or ()}
    said = conditions.get("Requeued", {})
    return str(said.get("message") or refusal) if said.get("reason") == "Inadmissible" else refusal


def _unread(reader: LogReader, index: AdmissionIndex | None, namespace: str, name: str) -> str:
    """Return which object a Workload waits for that was refused for not fitting its API, with the reason; "" for none.
    Such an object is as good as absent, as long as it was never read."""
    kind, place = kinds.WORKLOADS, (namespace, name)
    if index is not None:
        state = index.workloads.get(f"{namespace}/{name}")
        seen = state.observed if state is not None else None
        local = index.engine.queues.local.get(f"{namespace}/{seen.queue}") if seen is not None else None
        if seen is None or (local is not None and local.cluster_queue in index.engine.snapshot.queues):
            return ""
        kind, place = (kinds.LOCAL_QUEUES, (namespace, seen.queue))
        if local is not None:
            kind, place = (kinds.CLUSTER_QUEUES, ("", local.cluster_queue))
    streams = [refusals_of(kind, *place), stream_of(kind, *place)]
    newest = next(iter(reader.events(Filter(streams=streams), limit=1, newest=True)), None)
    if newest is None or not isinstance(newest.event, AdmissionInputRefused):
        return ""
    return f"{kind.kind} {place[1]} cannot be read: {newest.event.error}"


def plain(wait: Wait) -> dict[str, Any]:
    """Return why a Workload waits as plain values; amounts are quantities."""
    return {
        "cluster_queue": wait.cluster_queue,
        "position": wait.position,
        "pending": wait.pending,
        "ahead": list(wait.ahead),
        "tried": wait.tried,
        "inactive": wait.inactive,
        "inadmissible": wait.inadmissible,
        "uncovered": list(wait.uncovered),
        "used": "" if wait.used is None else "infinite" if wait.used == math.inf else f"{wait.used:.4g}",
        "dominant": wait.dominant,
        "replaces": wait.replaces,
        "flavors": [_option(one, group) for group, options in enumerate(wait.groups, 1) for one in options],
    }


def _option(one: FlavorOption, group: int) -> dict[str, Any]:
    return {
        "group": group,
        "flavor": one.name,
        "fits": one.fits,
        "unusable": one.unusable,
        "unplaced": one.unplaced,
        "resources": [_shortage(short) for short in one.shortages],
        "preemptible": list(one.preemptible),
        "would_end": list(one.would_end),
    }


def _shortage(one: Shortage) -> dict[str, Any]:
    resource = one.resource
    return {
        "resource": resource,
        "wanted": spelled(resource, one.wanted),
        "free": spelled(resource, one.free),
        "missing": spelled(resource, one.missing),
        "most": spelled(resource, one.most),
        "has": spelled(resource, one.has),
        "never": one.never,
        "holders": [
            {
                "workload": held.workload,
                "cluster_queue": held.cluster_queue,
                "amount": spelled(resource, held.amount),
                "priority": held.priority,
                "borrows": held.borrows,
                "evicted": held.evicted,
            }
            for held in one.holders
        ],
    }


def sentences(wait: Mapping[str, Any], sees: Callable[[str], bool] = lambda namespace: True) -> Iterator[str]:
    """Yield what `plain` returned in sentences; Workloads of namespaces that somebody does not see are counted, and not
    named.
    """
    place = f"It is number {wait['position']} of {wait['pending']} that wait in ClusterQueue {wait['cluster_queue']}"
    ahead = wait["ahead"]
    if wait["position"]:
        yield f"{place}, behind {_named(_shown(ahead, sees), wait['position'] - 1)}." if ahead else f"{place}."
    if used := wait.get("used"):
        yield _past_usage(used, wait.get("dominant") or "")
    if inactive := wait.get("inactive"):
        yield f"ClusterQueue {wait['cluster_queue']} is not Active ({inactive})."
    elif wait["inadmissible"]:
        yield f"It is not considered: {wait['inadmissible']}."
    if wait.get("replaces"):
        yield (
            f"It takes the place of workload slice {wait['replaces']}: it keeps that one's quota, and wants more "
            "beyond it."
        )
    if wait["uncovered"]:
        yield f"The ClusterQueue has no quota of {', '.join(wait['uncovered'])}."
    for option in wait["flavors"]:
        yield from _of_flavor(option, sees)
    if wait.get("estimate") is not None:
        yield quota_estimate.sentence(wait["estimate"])


def _past_usage(used: str, dominant: str) -> str:
    if not dominant:
        return (
            f"The weighted past usage of its LocalQueue is {used}; Workloads of LocalQueues that used less come first."
        )
    return (
        f"What it used in the past is {used} of all {dominant} there is; Workloads of those that used less come first."
    )


def _of_flavor(option: Mapping[str, Any], sees: Callable[[str], bool]) -> Iterator[str]:
    flavor = option["flavor"]
    if option["unusable"]:
        yield f"Flavor {flavor} is not for it: {option['unusable']}."
        return
    if option["fits"]:
        yield f"In flavor {flavor} it fits now."
        return
    if option.get("unplaced"):
        yield f"In flavor {flavor} there is no place for it: {option['unplaced']}."
    for short in option["resources"]:
        if short["never"]:
            has = f" beyond {short['has']} that the slice has" if short.get("has", "0") != "0" else ""
            yield (
                f"In flavor {flavor} it can never fit: it wants {short['wanted']} of {short['resource']}{has}, and "
                f"there are {short['most']}."
            )
        elif short["missing"] != "0":
            yield (
                f"In flavor {flavor} it wants {short['wanted']} of {short['resource']}, {short['free']} is free, and"
                f" {short['missing']} is missing.{_held(short['holders'], sees)}"
            )
    for first, names, last in (
        ("It may preempt", option["preemptible"], "for that"),
        ("It would fit if", [] if option["preemptible"] else option["would_end"], "ended"),
    ):
        if names:
            yield f"{first} {_named(_shown(names, sees), len(names))} {last}."


def _held(holders: Sequence[Mapping[str, Any]], sees: Callable[[str], bool]) -> str:
    """Return who has what is missing, as a sentence after a space; "" if nobody has."""
    if not holders:
        return ""
    amounts = {one["workload"]: f"{one['workload']} ({one['amount']})" for one in holders}
    named = [amounts[name] for name in _shown(list(amounts), sees)]
    return f" {_named(named, len(holders))} {'has' if len(holders) == 1 else 'have'} it."


def _shown(names: Sequence[str], sees: Callable[[str], bool]) -> list[str]:
    """Return those Workloads, NAMESPACE/NAME, that may be named."""
    return [name for name in names if sees(name.partition("/")[0])]


def _named(names: Sequence[str], count: int) -> str:
    """Return the first of some names, and how many of `count` are not said."""
    shown = names[:_MOST_NAMED]
    more = count - len(shown)
    if not shown:
        return "another Workload" if more == 1 else f"{more} other Workloads"
    listed = ", ".join(shown)
    return f"{listed} and {more} more" if more > 0 else listed
