"""Follows the objects that the counting of devices rests on: ResourceClaimTemplates, DeviceClasses and ResourceSlices.

In: objects as they are shown; their events in the log's order; Workloads, as far as they ask for devices. Out: an event
where something changes that counts, and no other; what is known of devices; which Workloads a change concerns; which
kinds are to be followed at all. Pure. What is not followed costs nothing: without a mapping, and without a Workload
that names a template, there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from controlplane.controllers.quota.admission import device_events as events
from controlplane.controllers.quota.admission.events import AdmissionObjectObserved, AdmissionWorkloadObserved
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.devices.extended import asks_for_extended
from controlplane.controllers.quota.devices.model import COUNT, DEVICE_KINDS, DeviceRules, KnownDevices
from controlplane.controllers.quota.engine.model import Workload
from controlplane.kube import fields
from controlplane.kube.conditions import is_true
from controlplane.kube.devices.objects import read_device_class, read_device_requests, read_resource_slice
from controlplane.kube.fields import UNFIT, items, section, text
from controlplane.kube.kinds import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Json, Kind, meta
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectVanished, ObservationsAhead

WORDS: dict[str, Kind] = {
    "claimtemplate": RESOURCE_CLAIM_TEMPLATES,
    "deviceclass": DEVICE_CLASSES,
    "resourceslice": RESOURCE_SLICES,
}
SEEN: dict[type[Event], Kind] = {
    events.AdmissionClaimTemplateObserved: RESOURCE_CLAIM_TEMPLATES,
    events.AdmissionDeviceClassObserved: DEVICE_CLASSES,
    events.AdmissionResourceSliceObserved: RESOURCE_SLICES,
}
GONE: dict[type[ObjectVanished], Kind] = {
    events.AdmissionClaimTemplateGone: RESOURCE_CLAIM_TEMPLATES,
    events.AdmissionDeviceClassGone: DEVICE_CLASSES,
    events.AdmissionResourceSliceGone: RESOURCE_SLICES,
}
DEVICES = "admission/devices"
"""The stream of what follows from changes of devices."""
_TOGETHER = timedelta(seconds=1)
_WORD = {kind: word for word, kind in WORDS.items()}
_EVENT = {kind: event for event, kind in SEEN.items()}
_GONE = {kind: event for event, kind in GONE.items()}
_OF_DEVICES = ("name", "attributes", "capacity", "consumesCounters")
_replace = msgspec.structs.replace


def stream_of(kind: Kind, namespace: str, name: str) -> str:
    """Return the stream of an object."""
    return f"admission/{_WORD[kind]}/{namespace}/{name}" if kind.namespaced else f"admission/{_WORD[kind]}/{name}"


def observed(kind: Kind, obj: Json) -> Event:
    """Return the observation of an object; a field that does not fit is named."""
    spec = section(obj, "spec")
    found: dict[str, Any] = {**fields.identity(obj), "spec": _of(kind, spec)}
    if kind == DEVICE_CLASSES:
        found["created"] = text(meta(obj), "creationTimestamp", "metadata")
    event = _EVENT[kind](**found)
    _read(kind, event)  # what cannot be read is refused here, and not when it is folded
    return event


def _of(kind: Kind, spec: Json) -> Json:
    """Return what of a spec something is decided on."""
    if kind == RESOURCE_CLAIM_TEMPLATES:
        claim = section(section(spec, "spec", "spec"), "devices", "spec.spec")
        return {"requests": requests} if (requests := items(claim, "requests", "spec.spec.devices")) else {}
    if kind == DEVICE_CLASSES:
        return {name: spec[name] for name in ("selectors", "extendedResourceName") if spec.get(name)}
    devices = [{name: one[name] for name in _OF_DEVICES if one.get(name)} for one in items(spec, "devices", "spec")]
    pool = {"driver": spec.get("driver"), "pool": spec.get("pool")}
    return pool | ({"devices": devices} if devices else {})


def _read(kind: Kind, event: Any) -> Any:
    """Return what an observation says."""
    where = {RESOURCE_CLAIM_TEMPLATES: "spec.spec.devices"}.get(kind, "")
    if kind == RESOURCE_CLAIM_TEMPLATES:
        return read_device_requests(event.spec, where)
    obj = {
        "metadata": {"name": event.name, "creationTimestamp": getattr(event, "created", "") or None},
        "spec": event.spec,
    }
    return (read_device_class if kind == DEVICE_CLASSES else read_resource_slice)(obj, kind.kind)


class DeviceObjects:
    """See the module. `known`: what was read of the objects; `asking`: Workloads that have not finished and ask for
    devices, each with the templates that it names, `named` by how many; `needs`: the kinds that are to be followed;
    `refused`: why those cannot be counted that cannot be, as the engine was told last; `view`: the kinds that were in
    view, or why they could not be seen. `changed`: when a slice changed first since who waits was counted last: a
    driver that starts publishes all of its slices, and who waits is counted once for all of them; `position`: where in
    the log the last of them is."""

    def __init__(self, rules: DeviceRules) -> None:
        self.rules = rules
        self.known = KnownDevices()
        self.objects: dict[str, AdmissionObjectObserved] = {}
        self.asking: dict[str, tuple[str, ...]] = {}
        self.named: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        self.view: dict[str, str] = {}
        self.changed: datetime | None = None
        self.position = self.version = 0
        self._ahead: ObservationsAhead[Any] = ObservationsAhead()
        self._follow()

    # What is followed.

    def _follow(self) -> None:
        """Find out which kinds are to be followed."""
        self.needs: tuple[Kind, ...] = ()
        if self.rules.mode != COUNT:
            return
        if not self.named:
            self.needs = (DEVICE_CLASSES,) if self.rules.resources else ()
        elif self.rules.counters or any(self._selects(one) for one in self.named):
            self.needs = DEVICE_KINDS
        else:
            self.needs = RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES

    def _selects(self, template: str) -> bool:
        """Whether a template, by namespace and name, selects devices by expressions."""
        namespace, _, name = template.partition("/")
        requests = self.known.templates.get((namespace, name), ())
        return any(option.selectors for request in requests for option in request.options)

    def ask(self, key: str, seen: AdmissionWorkloadObserved | None) -> None:
        """Note which devices a Workload asks for; None: it is gone."""
        before, asks = self.asking.pop(key, ()), _asks(seen)
        if seen is None:
            self.refused.pop(key, None)
        elif asks is not None:
            self.asking[key] = asks
        if before != (asks or ()):
            self.named.subtract(before)
            self.named.update(asks or ())
            self.named = +self.named
            self._follow()

    def note(self, found: Workload) -> None:
        """Note whether a Workload can be counted, as the engine is told."""
        self.refused.pop(found.key, None)
        if found.refusal:
            self.refused[found.key] = found.refusal

    # What was seen.

    def seen(self, change: ObjectChange) -> tuple[str, Event] | None:
        """Return stream and event of an object; None if it says nothing new. One that does not fit its API is an
        error."""
        metadata = meta(change.object)
        namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
        stream = stream_of(change.kind, namespace, name)
        known = self._ahead.newest(stream, self.objects.get(stream))
        if change.gone:
            if known is not None and known.uid == change.uid:
                self._ahead.note(stream, None)
            return stream, _GONE[change.kind](namespace=namespace, name=name, uid=change.uid)
        try:
            event = observed(change.kind, change.whole())
        except UNFIT:
            self._ahead.note(stream, None)  # the next version that can be read is news, whatever it says
            raise
        if known is not None and _same(known, event):
            return None
        self._ahead.note(stream, event)
        return stream, event

    # What is in the log.

    def fold(self, recorded: Recorded) -> Iterable[str]:
        """Take one more event; return the Workloads that are to be counted anew for it."""
        if recorded.stream == DEVICES:
            self.changed, self.version = None, recorded.version
            return self.asking
        kind, event = WORDS[recorded.stream.split("/")[1]], cast("Any", recorded.event)
        if not self._takes(kind, recorded.stream, event) or kind.name not in self.view:
            return ()
        if kind == RESOURCE_CLAIM_TEMPLATES:
            name = f"{event.namespace}/{event.name}"
            return [key for key, templates in self.asking.items() if name in templates]
        if kind == DEVICE_CLASSES:
            return self.asking
        self.changed, self.position = self.changed or recorded.recorded_at, recorded.position
        return ()

    def recount(
        self, waits: Callable[[str], bool], now: datetime
    ) -> tuple[events.DevicesRecounted | None, datetime | None]:
        """Return that who waits is to be counted anew, or when to look again; neither if nobody waits."""
        if self.changed is None or not any(map(waits, self.asking)):
            return None, None
        due = self.changed + _TOGETHER
        return (None, due) if due > now else (events.DevicesRecounted(reason=AdmissionReason.SLICES_CHANGED), None)

    def _takes(self, kind: Kind, stream: str, event: Any) -> bool:
        """Take an observation, or an end; return whether it says something new."""
        if isinstance(event, AdmissionObjectObserved):
            self._ahead.folded(stream, event)
            before, self.objects[stream] = self.objects.get(stream), event
            if before is not None and _same(before, event):
                return False
            self._put(kind, event)
        else:
            gone = self.objects.get(stream)
            if gone is None or gone.uid != event.uid:
                return False
            self._ahead.folded(stream, None)
            del self.objects[stream]
            self._drop(kind, gone)
        return True

    def look(self, in_view: Collection[str], off: Mapping[str, str]) -> Iterable[str]:
        """Take which kinds are in view, and why others cannot be; return the Workloads that it concerns, if that is
        another thing than before."""
        names = sorted(kind.name for kind in DEVICE_KINDS)
        view = {name: off.get(name, "") for name in names if name in in_view or name in off}
        came = any(self.view.get(name) != why for name, why in view.items())
        self.view |= view
        if not came:
            return ()
        self.known.unseen = {name: why for name, why in self.view.items() if why}
        self.known.memo.clear()
        return self.asking

    def _put(self, kind: Kind, event: Any) -> None:
        found = _read(kind, event)
        self.known.memo.clear()
        if kind == RESOURCE_CLAIM_TEMPLATES:
            self.known.templates[event.namespace, event.name] = found
            if f"{event.namespace}/{event.name}" in self.named:
                self._follow()
        elif kind == DEVICE_CLASSES:
            self.known.classes[event.name] = found
        else:
            self.known.slices[event.name] = found

    def _drop(self, kind: Kind, event: Any) -> None:
        self.known.memo.clear()
        if kind == RESOURCE_CLAIM_TEMPLATES:
            self.known.templates.pop((event.namespace, event.name), None)
        elif kind == DEVICE_CLASSES:
            self.known.classes.pop(event.name, None)
        else:
            self.known.slices.pop(event.name, None)

    # What is kept.

    def kept(self) -> dict[str, Any]:
        """Return what is to be kept: what was read is read again."""
        return {
            "objects": dict(self.objects),
            "asking": dict(self.asking),
            "refused": dict(self.refused),
            "view": dict(self.view),
            "changed": (self.changed, self.position, self.version),
        }

    def give(self, given: dict[str, Any]) -> None:
        """Hold what was kept."""
        self.objects, self.asking, self.refused, self.view = (
            dict(given[name]) for name in ("objects", "asking", "refused", "view")
        )
        self.changed, self.position, self.version = given["changed"]
        self.known = KnownDevices(unseen={kind: why for kind, why in self.view.items() if why})
        self.named = Counter(one for several in self.asking.values() for one in several)
        for stream, event in self.objects.items():
            self._put(WORDS[stream.split("/")[1]], event)
        self._follow()


def _asks(seen: AdmissionWorkloadObserved | None) -> tuple[str, ...] | None:
    """Return the templates that a Workload names, by namespace and name; None if it asks for no devices, or no more."""
    if seen is None or is_true({"status": seen.status}, "Finished"):
        return None
    claims = [claim for one in seen.pod_sets for claim in one.claims]
    if not claims and not any(asks_for_extended(one.requests) for one in seen.pod_sets):
        return None
    named = (one.get("resourceClaimTemplateName") for one in claims)
    return tuple(dict.fromkeys(f"{seen.namespace}/{one}" for one in named if one))


def _same(known: Any, event: Any) -> bool:
    """Whether an object is as it was seen before, its version aside."""
    return type(known) is type(event) and bool(_replace(event, resource_version=known.resource_version) == known)
