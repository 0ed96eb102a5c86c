"""Makes of an object that a cluster showed the narrow event that quota rests on.

In: a change. Out: stream and event; None for what concerns no quota. An object that does not fit its API becomes
`QuotaInputRefused`: what was known of it counts on."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota import events
from controlplane.controllers.quota.aggregate import CONDITION
from controlplane.kube import fields, kinds
from controlplane.kube.conditions import conditions_of
from controlplane.kube.fields import UNFIT, BadValue, Misfit, items, number, section, strings, text
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.quantities import nanos
from controlplane.log.event import Body, Event, body_of
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectVanished

QUOTA = "quota"
MANAGEMENTS = ("", "Manual", "Automated")
_Built = tuple[str, Event, tuple[Body, ...]]


def queue_stream(name: str) -> str:
    """Return the stream of a ClusterQueue of the management cluster."""
    return f"{QUOTA}/queue/{name}"


def seen(change: ObjectChange, controller: str) -> _Built | None:
    """Return stream, event and bodies of something seen; `controller` is the name by which AdmissionChecks are ours."""
    home = change.cluster == MANAGEMENT
    place = (_PLACES_AT_HOME if home else _PLACES_ON_WORKERS).get(change.kind)
    if place is None:
        return None
    name = f"{QUOTA}/{place(change)}"
    try:
        if change.gone:
            return name, _gone(change, home=home), ()
        build = _built(change.kind, change.whole(), controller, home=home)
    except UNFIT as error:
        return _refused(change, error)
    return (name, build, ()) if build is not None else None


def _built(kind: Kind, obj: Json, controller: str, *, home: bool) -> Event | None:
    if kind == kinds.LOCAL_QUEUES:
        spec = section(obj, "spec")
        return events.QuotaLocalQueueObserved(**fields.identity(obj), cluster_queue=text(spec, "clusterQueue", "spec"))
    if not home:
        return _worker(obj)
    if kind == kinds.CLUSTER_QUEUES:
        return _queue(obj)
    return _check(obj, controller) if kind == kinds.ADMISSION_CHECKS else _config(obj)


def _gone(change: ObjectChange, *, home: bool) -> Event:
    metadata = meta(change.object)
    gone: dict[Kind, type[ObjectVanished]] = {
        kinds.CLUSTER_QUEUES: events.QuotaQueueGone if home else events.WorkerQuotaGone,
        kinds.LOCAL_QUEUES: events.QuotaLocalQueueGone,
        kinds.ADMISSION_CHECKS: events.QuotaCheckGone,
        kinds.MULTIKUEUE_CONFIGS: events.QuotaConfigGone,
    }
    return gone[change.kind](
        namespace=str(metadata.get("namespace") or ""), name=str(metadata["name"]), uid=str(metadata.get("uid") or "")
    )


def _queue(obj: Json) -> events.QuotaQueueObserved:
    spec, status = section(obj, "spec"), section(obj, "status")
    strategy = section(spec, "admissionChecksStrategy", "spec")
    rules = items(strategy, "admissionChecks", "spec.admissionChecksStrategy")
    return events.QuotaQueueObserved(
        **fields.identity(obj),
        generation=number(meta(obj), "generation", "metadata"),
        checks=[text(one, "name", "spec.admissionChecksStrategy.admissionChecks[]") for one in rules],
        groups=[
            events.ResourceGroup(
                covered=strings(group, "coveredResources", "spec.resourceGroups[]"),
                flavors=[_flavor(one) for one in items(group, "flavors", "spec.resourceGroups[]")],
            )
            for group in items(spec, "resourceGroups", "spec")
        ],
        conditions=conditions_of(status),
    )


def _flavor(flavor: Json) -> events.FlavorQuotas:
    where = "spec.resourceGroups[].flavors[]"
    resources = [
        events.ResourceQuota(
            name=text(one, "name", f"{where}.resources[]"),
            nominal=_quantity(one, f"{where}.resources[].nominalQuota"),
            limited=one.get("borrowingLimit") is not None or one.get("lendingLimit") is not None,
        )
        for one in items(flavor, "resources", where)
    ]
    return events.FlavorQuotas(name=text(flavor, "name", where), resources=resources)


def _quantity(resource: Json, where: str) -> str:
    found = resource.get("nominalQuota", "0")
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise Misfit(where, found, "a quantity")
    try:
        nanos(found)
    except ValueError:
        raise Misfit(where, found, "a quantity") from None
    return str(found)


def _worker(obj: Json) -> events.WorkerQuotaObserved:
    quotas: dict[str, list[str]] = {}
    for group in items(section(obj, "spec"), "resourceGroups", "spec"):
        for flavor in items(group, "flavors", "spec.resourceGroups[]"):
            for quota in _flavor(flavor).resources:
                quotas.setdefault(quota.name, []).append(quota.nominal)
    return events.WorkerQuotaObserved(**fields.identity(obj), quotas=quotas)


def _check(obj: Json, controller: str) -> events.QuotaCheckObserved | None:
    spec = section(obj, "spec")
    if text(spec, "controllerName", "spec") != controller:
        return None  # of another controller, for ever: the field cannot be changed
    parameters = section(spec, "parameters", "spec")
    group, kind = (text(parameters, key, "spec.parameters") for key in ("apiGroup", "kind"))
    ours = (group, kind) == (kinds.MULTIKUEUE_CONFIGS.group, kinds.MULTIKUEUE_CONFIGS.kind)
    config = text(parameters, "name", "spec.parameters") if ours else ""
    return events.QuotaCheckObserved(**fields.identity(obj), config=config)


def _config(obj: Json) -> events.QuotaConfigObserved:
    spec = section(obj, "spec")
    management = text(spec, "quotaManagement", "spec")
    if management not in MANAGEMENTS:
        raise BadValue("spec.quotaManagement", f'"{management}" is neither Manual nor Automated')
    clusters = strings(spec, "clusters", "spec")
    return events.QuotaConfigObserved(**fields.identity(obj), clusters=clusters, management=management)


def _refused(change: ObjectChange, error: Exception) -> _Built:
    body, obj = body_of(change.object), change.object
    event = events.QuotaInputRefused(**fields.refusal(change.kind, obj, error), object=body.ref)
    stream = f"{QUOTA}/refused/{change.cluster}/{event.kind}/{event.namespace}/{event.name}"
    return stream, event, (body,)


def _named(change: ObjectChange) -> str:
    return str(meta(change.object)["name"])


def _local_queue(change: ObjectChange) -> str:
    return f"localqueue/{change.cluster}/{meta(change.object).get('namespace') or ''}/{_named(change)}"


def automated(queue: events.QuotaQueueObserved) -> bool:
    """Whether a ClusterQueue may have to do with automation: it has checks, or a condition that is left of it."""
    return bool(queue.checks) or any(one.type == CONDITION for one in queue.conditions)


_Place = Callable[[ObjectChange], str]
_PLACES_AT_HOME: dict[Kind, _Place] = {
    kinds.CLUSTER_QUEUES: lambda change: f"queue/{_named(change)}",
    kinds.ADMISSION_CHECKS: lambda change: f"check/{_named(change)}",
    kinds.MULTIKUEUE_CONFIGS: lambda change: f"config/{_named(change)}",
    kinds.LOCAL_QUEUES: _local_queue,
}
_PLACES_ON_WORKERS: dict[Kind, _Place] = {
    kinds.CLUSTER_QUEUES: lambda change: f"worker/{change.cluster}/{_named(change)}",
    kinds.LOCAL_QUEUES: _local_queue,
}
