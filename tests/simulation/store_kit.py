"""What the tests of the store and the server build on: a clock that stands still, uids that count."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import DEFAULT_KINDS, ServedKind

GADGETS = Kind("kit.example.com", "v1", "Gadget", "gadgets")
KINDS = (*DEFAULT_KINDS, ServedKind(GADGETS, list_map_keys={"status.conditions": ("type",), "spec.tags": ()}))


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def new_store(clock: Clock | None = None, *, kinds: Iterable[ServedKind] = KINDS, history: int = 10_000) -> Store:
    numbers = itertools.count(1)
    return Store("kit", kinds=kinds, now=clock or Clock(), new_uid=lambda: f"uid-{next(numbers)}", history=history)


def gadget(
    name: str, *, owners: Iterable[Json] = (), blocking: bool = False, namespace: str = "default", **spec: Any
) -> Json:
    """Return a gadget, owned by objects."""
    references = [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        | {"uid": owner["metadata"]["uid"]}
        | ({"blockOwnerDeletion": True} if blocking else {})
        for owner in owners
    ]
    metadata: Json = {"name": name, "namespace": namespace}
    if references:
        metadata["ownerReferences"] = references
    return {"metadata": metadata, "spec": spec}


def names(store: Store, kind: Kind = GADGETS) -> list[str]:
    return [obj["metadata"]["name"] for obj in store.list(kind)[0]]
