"""Makes of what a user gives for ClusterQueues, Cohorts and flavors the observations that take the place of recorded
ones.

In: objects as Kueue's API has them, or amounts that are to be nominal quotas. Out: observations by their streams, or
specs. What does not fit the API raises `Misfit`, which names the field. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from controlplane.controllers.quota.admission.observe import observation, stream_of
from controlplane.controllers.quota.engine import model
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, Json
from controlplane.log.event import Event
from controlplane.whatif.capacity import Capacity
from controlplane.whatif.others import queue_place
from controlplane.whatif.quota_history import QuotaHistory

KINDS = {kind.kind: kind for kind in (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS)}
"""The kinds of which objects may be given."""
_UID = "what-if"
_CHOICES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("stopPolicy",): (model.NO_STOP, "Hold", "HoldAndDrain"),
    ("queueingStrategy",): (model.BEST_EFFORT_FIFO, model.STRICT_FIFO),
    ("preemption", "withinClusterQueue"): (model.NEVER, model.LOWER_PRIORITY, model.LOWER_OR_NEWER_EQUAL_PRIORITY),
    ("preemption", "reclaimWithinCohort"): (model.NEVER, model.LOWER_PRIORITY, model.ANY),
    ("preemption", "borrowWithinCohort", "policy"): (model.NEVER, model.LOWER_PRIORITY),
    ("flavorFungibility", "whenCanBorrow"): (model.MAY_STOP_SEARCH, model.TRY_NEXT_FLAVOR),
    ("flavorFungibility", "whenCanPreempt"): (model.MAY_STOP_SEARCH, model.TRY_NEXT_FLAVOR),
    ("flavorFungibility", "preference"): (model.BORROWING_OVER_PREEMPTION, model.PREEMPTION_OVER_BORROWING),
}
"""The words that fields of a ClusterQueue's spec may have. No API server has looked at what is given, and a word that
the engine does not know would mean something else to it."""


def given_object(obj: Json) -> tuple[str, Event]:
    """Return stream and observation of an object of one of `KINDS`; raises `Misfit`."""
    kind = KINDS[obj["kind"]]
    metadata = {**obj["metadata"], "uid": _UID, "resourceVersion": "1"}
    name = str(metadata["name"])
    found = observation(kind, {**obj, "metadata": metadata})
    spec = obj.get("spec") or {}
    if kind == CLUSTER_QUEUES:
        _choose(spec)
    elif kind == COHORTS and spec.get("parentName") == name:
        raise BadValue("spec.parentName", f"{name} is the Cohort itself: name another one, or leave the field out")
    return stream_of(kind, "", name), found


def _choose(spec: Json) -> None:
    """Raise `BadValue` for a word that a field of a ClusterQueue may not have."""
    for path, words in _CHOICES.items():
        said: Any = spec
        for field in path:
            said = (said or {}).get(field)
        if said and said not in words:
            raise BadValue(f"spec.{'.'.join(path)}", f'"{said}" is none of its words: write one of {", ".join(words)}')


def queue_stream(name: str) -> str:
    """Return the stream of a ClusterQueue."""
    return stream_of(CLUSTER_QUEUES, "", name)


def with_nominal(spec: Json, amounts: Mapping[str, float]) -> Json:
    """Return the spec of a ClusterQueue with other nominal quotas, by resource; raises `BadValue` for a resource that
    it does not have, or has in several flavors."""
    found = copy.deepcopy(spec)
    for name, amount in amounts.items():
        quotas = list(_quotas(found, name))
        if len(quotas) != 1:
            why = "it is in several flavors" if quotas else "the ClusterQueue has no quota of it"
            raise BadValue(name, f"{why}: give the ClusterQueue as Kueue's API has it, with kind and spec")
        quotas[0]["nominalQuota"] = f"{amount:.3f}".rstrip("0").rstrip(".")
    return found


def problem(
    objects: Mapping[str, Event], capacities: Mapping[str, Capacity], known: QuotaHistory, begin: datetime
) -> str:
    """Return why quotas cannot be given from a time on to the queues that a log knows, in one sentence; "" if they
    can."""
    if objects and not known.queues:
        kind, name = _named(next(iter(objects)))
        return (
            f"{kind} {name}: the log does not say what its queues are, since Kueue decided about quota: give a "
            "capacity, such as clusterQueues: {team-a: {cpu: 128}}"
        )
    for stream, event in objects.items():
        flavors = {one["name"] for one in _flavors(getattr(event, "spec", {}))} if "/flavor/" not in stream else ()
        for flavor in sorted(flavors):
            place = stream_of(RESOURCE_FLAVORS, "", flavor)
            if place not in known.seen and place not in objects:
                kind, name = _named(stream)
                return (
                    f"{kind} {name}: spec.resourceGroups: there is no ResourceFlavor {flavor}: give it in the file too"
                )
    for name, specs in known.specs_after(begin).items():
        told = capacities.get(queue_place(name), {})
        try:
            for spec in specs:
                with_nominal(spec, told)
        except BadValue as error:
            return f"clusterQueues.{name}.{error}"
    return ""


def _named(stream: str) -> tuple[str, str]:
    """Return kind and name of an object."""
    name = stream.rpartition("/")[2]
    return next(kind for kind, one in KINDS.items() if stream_of(one, "", name) == stream), name


def _flavors(spec: Json) -> Iterator[Json]:
    for group in spec.get("resourceGroups") or ():
        yield from group.get("flavors") or ()


def _quotas(spec: Json, resource: str) -> Iterator[Json]:
    for flavor in _flavors(spec):
        yield from (one for one in flavor.get("resources") or () if one.get("name") == resource)
