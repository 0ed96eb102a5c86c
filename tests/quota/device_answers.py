"""The answers to questions about devices, in the form in which Kueue's were recorded: what all pods of each pod set ask
for, or why that cannot be said."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import facts, observe
from controlplane.controllers.quota.admission.device_objects import DeviceObjects
from controlplane.controllers.quota.devices.model import COUNT, CounterSource, DeviceMapping, DeviceRules
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.resource_rules import ResourceRules, ResourceTransformation
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.quantities import NANO, nanos
from controlplane.log.event import Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.settings.device_class_mappings import DeviceClassMappings

NEVER = datetime.min.replace(tzinfo=UTC)
KINDS: dict[str, Kind] = {
    "ResourceClaimTemplate": kinds.RESOURCE_CLAIM_TEMPLATES,
    "DeviceClass": kinds.DEVICE_CLASSES,
    "ResourceSlice": kinds.RESOURCE_SLICES,
}
# A client with a cache, which Kueue's manager has, names the kind where one without names the resource.
_WORDS = (
    ("resourceclaimtemplates.resource", "ResourceClaimTemplate.resource"),
    ("deviceclasses.resource", "DeviceClass.resource"),
)


def rules_of(mappings: list[Json]) -> DeviceRules:
    """Return the rules of mappings as a settings file has them."""
    found = []
    for one in DeviceClassMappings().read(mappings):
        counters = (CounterSource(one.name, source.driver, source.counter, source.selector) for source in one.sources)
        found.append(DeviceMapping(one.name, one.device_class_names, tuple(counters)))
    return DeviceRules.of(found, COUNT)


def settings_of(question: Json) -> EngineSettings:
    transformations = {
        one["input"]: ResourceTransformation(
            {name: Fraction(nanos(amount), NANO) for name, amount in one["outputs"].items()},
            one["strategy"] == "Replace",
        )
        for one in question["transformations"]
    }
    resources = ResourceRules(tuple(question["excluded"]), transformations)
    return EngineSettings(resources=resources, devices=rules_of(question["mappings"]))


def answer(question: Json) -> Json:
    """Return the answer."""
    settings = settings_of(question)
    devices = DeviceObjects(settings.devices)
    for obj in question["objects"]:
        obj["metadata"]["resourceVersion"] = "1"
        found = devices.seen(ObjectChange(MANAGEMENT, "one", KINDS[obj["kind"]], obj, "1", gone=False))
        assert found is not None
        stream, event = found
        devices.fold(Recorded(position=0, stream=stream, version=0, event=event, cluster=MANAGEMENT, recorded_at=NEVER))
    seen = observe.workload(question["workload"])
    workload = facts.workload(seen, by=settings, known=devices.known)
    if workload.refusal:
        return {"refused": workload.refusal}
    requests = {
        one.name: {name: str(amount) for name, amount in one.requests.items()} for one in Info(workload).pod_sets
    }
    return {"requests": requests}


def of_kueue(found: Json) -> Json:
    """Return a recorded answer as Kueue's manager gives it."""
    told = found.get("refused", "")
    for plural, kind in _WORDS:
        told = told.replace(plural, kind)
    return {"refused": told} if told else found
