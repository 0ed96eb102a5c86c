"""Makes of what a user gives for ClusterQueues, Cohorts and flavors the observations that take the place of recorded ones.

In: objects as Kueue's API has them, or amounts that are to be nominal quotas. Out: observations by their streams, or specs.
What does not fit the API raises `Misfit`, which names the field. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

from controlplane.controllers.quota.admission.observe import observation, stream_of
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, Json
from controlplane.log.event import Event

KINDS = {kind.kind: kind for kind in (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS)}
"""The kinds of which objects may be given."""
_UID = "what-if"


def given_object(obj: Json) -> tuple[str, Event]:
    """Return stream and observation of an object of one of `KINDS`; raises `Misfit`."""
    kind = KINDS[obj["kind"]]
    metadata = {**obj["metadata"], "uid": _UID, "resourceVersion": "1"}
    name = str(metadata["name"])
    return stream_of(kind, "", name), observation(kind, {**obj, "metadata": metadata})


def with_nominal(spec: Json, amounts: Mapping[str, float]) -> Json:
    """Return the spec of a ClusterQueue with other nominal quotas, by resource; raises `BadValue` for a resource that it does
    not have, or has in several flavors."""
    found = copy.deepcopy(spec)
    for name, amount in amounts.items():
        quotas = list(_quotas(found, name))
        if len(quotas) != 1:
            why = "it is in several flavors" if quotas else "the ClusterQueue has no quota of it"
            raise BadValue(name, f"{why}: give the ClusterQueue as Kueue's API has it, with kind and spec")
        quotas[0]["nominalQuota"] = f"{amount:.3f}".rstrip("0").rstrip(".")
    return found


def _quotas(spec: Json, resource: str) -> Iterator[Json]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            yield from (one for one in flavor.get("resources") or () if one.get("name") == resource)
