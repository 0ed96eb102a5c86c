"""Reads what a user describes for a simulation: a cluster that is added, and quotas.

In: the bytes of a YAML file and its name. Out: an `AddedCluster`, or capacities by place and objects of Kueue's API; or
an `InputError`, one sentence that names the file, the field, and what is wrong. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from controlplane.kube.documents import documents
from controlplane.kube.fields import UNFIT
from controlplane.kube.quantities import NANO, nanos
from controlplane.log.event import Event
from controlplane.values import Value
from controlplane.whatif.capacity import Capacity
from controlplane.whatif.others import queue_place
from controlplane.whatif.queue import AddedCluster
from controlplane.whatif.quota_objects import KINDS, given_object, queue_stream

Quantities = dict[str, str | int | float]


_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class InputError(Exception):
    """A file does not say what it should; the message is one sentence."""


class _AddedClusterFile(Value, rename="camel", forbid_unknown_fields=True):
    name: str
    capacity: Quantities
    labels: dict[str, str] = {}
    admission_seconds: float | None = None


class _Quota(Value, rename="camel", forbid_unknown_fields=True):
    clusters: dict[str, Quantities] = {}
    cluster_queues: dict[str, Quantities] = {}


def added_cluster(text: bytes, file: str) -> AddedCluster:
    """Return the cluster that a file describes; raises `InputError`."""
    found = _one(text, file, _AddedClusterFile, "name: north-2, capacity: {cpu: 64}")
    if not _NAME.fullmatch(found.name):
        raise InputError(f'{file}: name: "{found.name}" is no name of a MultiKueueCluster: write one such as north-2')
    if found.admission_seconds is not None and not 0 <= found.admission_seconds < 1e9:
        raise InputError(
            f"{file}: admissionSeconds: {found.admission_seconds:g} is no time: write seconds, such as 2.5"
        )
    return AddedCluster(
        name=found.name,
        capacity=_amounts(found.capacity, f"{file}: capacity"),
        labels=found.labels,
        admission_seconds=found.admission_seconds,
    )


class GivenQuotas(Value):
    """What a file gives: capacities by place, and observations of objects by their streams."""

    capacities: dict[str, dict[str, float]] = {}
    objects: dict[str, Event] = {}


def quotas(text: bytes, file: str) -> GivenQuotas:
    """Return what a file gives clusters and ClusterQueues of the management cluster: capacities, and documents that are
    objects of Kueue's API; raises `InputError`."""
    capacities: dict[str, dict[str, float]] = {}
    objects: dict[str, Event] = {}
    for number, value in enumerate(_documents(text, file), 1):
        if isinstance(value, dict) and "kind" in value:
            stream, event = _object(value, f"{file}: document {number}")
            if stream in objects:
                raise InputError(f"{file}: {value['kind']} {stream.rpartition('/')[2]} is given twice: give it once")
            objects[stream] = event
        else:
            found = _capacities(value, file)
            for place in sorted(capacities.keys() & found):
                raise InputError(f"{file}: {_called(place)} is given twice: give it once")
            capacities |= found
    for place in sorted(capacities):
        queue = place.partition("/")[2]
        if queue and queue_stream(queue) in objects:
            raise InputError(f"{file}: {_called(place)} is given as a ClusterQueue too: give it once")
    return GivenQuotas(capacities=capacities, objects=objects)


def _capacities(value: Any, file: str) -> dict[str, dict[str, float]]:
    found = _convert(value, file, _Quota, "clusters: {north: {cpu: 64}}, clusterQueues: {team-a: {cpu: 128}}")
    if not found.clusters and not found.cluster_queues:
        raise InputError(f"{file}: it has no quota: write clusters: {{north: {{cpu: 64}}}}")
    for field, named in (("clusters", found.clusters), ("clusterQueues", found.cluster_queues)):
        for name in named:
            if not name or "/" in name:
                raise InputError(f'{file}: {field}: "{name}" is no name: write that of one which the log knows')
    of_queues = found.cluster_queues.items()
    return {name: _amounts(one, f"{file}: clusters.{name}") for name, one in found.clusters.items()} | {
        queue_place(name): _amounts(one, f"{file}: clusterQueues.{name}") for name, one in of_queues
    }


def unlimited(added: Iterable[AddedCluster], told: Mapping[str, Capacity], asked: Collection[str]) -> str:
    """Return which capacity bounds nothing although it was meant to, in one sentence, "" if none does: of a resource
    that no Workload asks for there is no end. `asked` are those that some ask for."""
    given = [("--add-cluster", f"{one.name}: capacity", one.capacity) for one in added]
    given += [("--quota", _called(place), capacity) for place, capacity in sorted(told.items())]
    for option, where, capacity in given:
        for name in sorted(capacity.keys() - set(asked)):
            meant = difflib.get_close_matches(name, sorted(set(asked) - capacity.keys()), n=1, cutoff=0.6)
            if meant or not capacity.keys() & set(asked):
                hint = f"did you mean {meant[0]}?" if meant else f"they ask for {', '.join(sorted(asked))}"
                return f"{option}: {where}: no Workload of the log asks for {name}; {hint}"
    return ""


def _called(place: str) -> str:
    queue = place.partition("/")[2]
    return f"clusterQueues.{queue}" if queue else f"clusters.{place}"


def _object(value: dict[str, Any], where: str) -> tuple[str, Event]:
    """Return stream and observation of an object of Kueue's API."""
    kind, metadata = value["kind"], value.get("metadata")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f'{where}: kind: "{kind}" cannot be given: write one of {", ".join(KINDS)}')
    if value.get("apiVersion") != KINDS[kind].api_version:
        said, wanted = value.get("apiVersion"), KINDS[kind].api_version
        raise InputError(f'{where}: apiVersion: "{said}" is not that of a {kind} here: write {wanted}')
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: metadata.name: the {kind} has no name: write that of the one whose place it takes")
    try:
        return given_object(value)
    except UNFIT as error:
        raise InputError(f"{where}: {kind} {name}: {error}") from None


def _documents(text: bytes, file: str) -> list[Any]:
    try:
        found = list(documents(file, text.decode("utf-8-sig"), unique=True))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    for one in found:
        if one.wrong:
            raise InputError(f"{one.place} {one.wrong}")
    return [one.content for one in found] or [None]


def _one(text: bytes, file: str, of: Any, example: str) -> Any:
    found = _documents(text, file)
    if len(found) > 1:
        raise InputError(f"{file}: it has {len(found)} documents: give each cluster in a file of its own")
    return _convert(found[0], file, of, example)


def _convert(value: Any, file: str, of: Any, example: str) -> Any:
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: {error}: write something such as {{{example}}}") from None


def _amounts(quantities: Quantities, where: str) -> dict[str, float]:
    """Return amounts in base units (cores, bytes)."""
    found = {}
    if not quantities:
        raise InputError(f"{where}: it names no resource: write one such as {{cpu: 64}}")
    for name, quantity in quantities.items():
        try:
            amount = nanos(quantity) / NANO
        except ValueError:
            amount = -1.0
        if amount < 0:
            raise InputError(f'{where}.{name}: "{quantity}" is no quantity: write one such as 64, 500m or 2Gi')
        found[name] = amount
    return found
