"""The API servers of the model: the preconditions, finalizers and patches that dispatch leans on, and nothing else.

A resourceVersion is the number of an object's content: stale exactly if the content has changed since. That allows a
little more than a real server would, so what holds here holds there."""

from __future__ import annotations

import copy
from collections.abc import Collection
from itertools import count
from typing import Any

import msgspec

from controlplane.kube.kinds import WORKLOADS, Json, Request, meta
from controlplane.simulation.apiserver.patches import merge_patch
from tests.candidates.model.intern import Interner
from tests.multikueue.model.world import WORKLOAD, Store

# What the field manager `kueue-admission` has in a Workload's status beside the lists by key: left out of an apply, it
# goes.
_APPLIED = ("admission", "clusterName", "nominatedClusterNames")
_KEYS = {"conditions": "type", "admissionChecks": "name"}


class Refused(Exception):  # noqa: N818
    """The server said no."""

    def __init__(self, code: int, error: str) -> None:
        super().__init__(f"{code} {error}")
        self.code, self.error = code, error


class Api:
    """Numbers contents, and carries out requests on stores, which are values."""

    def __init__(self) -> None:
        self._contents: Interner[bytes] = Interner()

    def version(self, obj: Json) -> str:
        """Return an object's resourceVersion."""
        content = self.encoded(obj)
        return str(self._contents.put(content, content) + 1)

    @staticmethod
    def encoded(obj: Any) -> bytes:
        """Return the text of an object, or of several: equal for equal ones."""
        return msgspec.json.encode(obj, order="sorted")

    def shown(self, obj: Json) -> Json:
        """Return an object as a client gets it."""
        return {**obj, "metadata": {**meta(obj), "resourceVersion": self.version(obj)}}

    def content(self, version: str) -> bytes:
        """Return what an object was at a resourceVersion."""
        return self._contents[int(version) - 1]

    def execute(self, store: Store, request: Request, taken: Collection[str] = ()) -> Store:
        """Return the store after a request; `Refused` if a precondition does not hold. A new object gets the first UID
        that is not `taken`: one that nobody knows any more cannot be told from a new one."""
        slot = _slot(request)
        found: Json | None = store[slot]
        if request.verb == "create":
            return self._create(store, slot, request, found, taken)
        if found is None:
            if request.verb == "delete":
                return store
            raise Refused(404, "NotFound")
        uid, version = request.uid, request.resource_version
        if request.verb == "patch":
            uid = uid or str(request.body.get("metadata", {}).get("uid", ""))
        if (uid and meta(found)["uid"] != uid) or (version and self.version(found) != version):
            raise Refused(409, "Conflict")
        if request.verb == "delete":
            return self._delete(store, slot, request, found)
        return {**store, slot: _without_leftovers(self._patched(request, found))}

    def _create(self, store: Store, slot: str, request: Request, found: Json | None, taken: Collection[str]) -> Store:
        if found is not None:
            _owned(request, found)
            return store
        body = copy.deepcopy(request.body)
        body["metadata"] = {**meta(body), "namespace": request.ref.namespace, "name": request.ref.name}
        body["metadata"]["uid"] = next(uid for n in count(1) if (uid := f"{slot}#{n}") not in taken)
        body.setdefault("status", {})
        return {**store, slot: body}

    def _delete(self, store: Store, slot: str, request: Request, found: Json) -> Store:
        _owned(request, found)
        if meta(found).get("finalizers"):
            return {**store, slot: {**found, "metadata": {**meta(found), "deletionTimestamp": "now"}}}
        return {**store, slot: None}

    def _patched(self, request: Request, found: Json) -> Json:
        part = {"status": request.body["status"]} if request.subresource else dict(request.body)
        part.pop("apiVersion", None)
        part.pop("kind", None)
        if "apply" in request.content_type:
            return {**found, "status": _applied(found.get("status") or {}, part["status"], request.field_manager)}
        merged: dict[str, Any] = merge_patch(found, part)
        merged["metadata"] = {**meta(merged), "uid": meta(found)["uid"]}
        merged["metadata"].pop("resourceVersion", None)
        return merged


def _slot(request: Request) -> str:
    if request.ref.kind != WORKLOADS:
        return "job"
    return "workload" if request.ref.name == WORKLOAD else "next"


def _owned(request: Request, found: Json) -> None:
    label, value = request.owner_label or ("", "")
    if label and (meta(found).get("labels") or {}).get(label) != value:
        raise Refused(409, "Foreign")


def _applied(status: Json, wanted: Json, manager: str) -> Json:
    after = dict(status)
    if manager == "kueue-admission":
        for name in _APPLIED:
            after.pop(name, None)
    for name, value in wanted.items():
        key = _KEYS.get(name)
        if key is None:
            after[name] = value
            continue
        named = {one[key]: one for one in value}
        kept = [named.pop(one[key], one) for one in status.get(name) or []]
        after[name] = [*kept, *named.values()]
    return after


def _without_leftovers(obj: Json) -> Json | None:
    metadata = meta(obj)
    if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
        return None
    status = {key: value for key, value in (obj.get("status") or {}).items() if value not in (None, [], {})}
    return in_order({**obj, "status": status})


def in_order(obj: Json) -> Json:
    """Return an object with its conditions and checks by their keys: nothing depends on which was written first."""
    status = obj["status"]
    return {
        **obj,
        "status": {
            name: sorted(value, key=lambda one, key=_KEYS[name]: one[key]) if name in _KEYS else value
            for name, value in status.items()
        },
    }
