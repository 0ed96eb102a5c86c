"""Reads what a user describes for a simulation: a cluster that is added, and quotas.

In: the bytes of a YAML file and its name. Out: an `AddedCluster`, or capacities by place; or an `InputError`, one
sentence that names the file, the field, and what is wrong. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.quantities import NANO, nanos
from controlplane.values import Value
from controlplane.whatif.capacity import queue_place
from controlplane.whatif.queue import AddedCluster

Quantities = dict[str, str | int | float]


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
    found = _read(text, file, _AddedClusterFile, "name: north-2, capacity: {cpu: 64}")
    if not found.name or found.name.startswith(MANAGEMENT) or "/" in found.name:
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


def quotas(text: bytes, file: str) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return the capacities that a file gives clusters, and those that it gives ClusterQueues of the management cluster
    (by place); raises `InputError`."""
    found = _read(text, file, _Quota, "clusters: {north: {cpu: 64}}, clusterQueues: {team-a: {cpu: 128}}")
    if not found.clusters and not found.cluster_queues:
        raise InputError(f"{file}: it has no quota: write clusters: {{north: {{cpu: 64}}}}")
    return (
        {name: _amounts(one, f"{file}: clusters.{name}") for name, one in found.clusters.items()},
        {
            queue_place(name): _amounts(one, f"{file}: clusterQueues.{name}")
            for name, one in found.cluster_queues.items()
        },
    )


def _read(text: bytes, file: str, of: Any, example: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: it is not YAML: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: {error}: write something such as {{{example}}}") from None


def _amounts(quantities: Quantities, where: str) -> dict[str, float]:
    """Return amounts in base units (cores, bytes)."""
    found = {}
    for name, quantity in quantities.items():
        try:
            amount = nanos(quantity) / NANO
        except ValueError:
            amount = -1.0
        if amount < 0:
            raise InputError(f'{where}.{name}: "{quantity}" is no quantity: write one such as 64, 500m or 2Gi')
        found[name] = amount
    return found
