"""The API server of the model: the preconditions, finalizers and sub-resources that the protocol leans on, and nothing
else.

A resourceVersion is the number of an object's content: stale exactly if the content has changed since. That allows a
little more than a real server would (a content that comes back makes an old request valid again), so what holds here
holds there."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from controlplane.controllers.candidates.readiness import APPLIED
from controlplane.kube.kinds import PODS, STRATEGIC_PATCH, Json, Request, meta
from controlplane.simulation.apiserver.errors import ApiRefusal
from controlplane.simulation.apiserver.patches import merge_patch, strategic_merge
from controlplane.simulation.apiserver.pod_status import check_pod_status
from tests.candidates.model.intern import Interner

Store = dict[str, Any]  # {"candidates": {name: object}, "pods": {name: object}, "lives": {name: count}}
_KEYS = {"spec.containers": ("name",), "spec.initContainers": ("name",), "status.conditions": ("type",)}
EMPTY: Store = {"candidates": {}, "pods": {}, "lives": {}}


class Refused(Exception):  # noqa: N818
    """The server said no."""

    def __init__(self, code: int, error: str = "Conflict") -> None:
        super().__init__(f"{code} {error}")
        self.code, self.error = code, error


class Api:
    """Numbers contents, and carries out requests on stores, which are values."""

    def __init__(self) -> None:
        self._contents: Interner[bytes] = Interner()

    def version(self, obj: Json) -> str:
        """Return an object's resourceVersion."""
        text = msgspec.json.encode(obj, order="sorted")
        return str(self._contents.put(text, text))

    def shown(self, obj: Json) -> Json:
        """Return an object as a client gets it."""
        return {**obj, "metadata": {**meta(obj), "resourceVersion": self.version(obj)}}

    def execute(self, store: Store, request: Request) -> Store:
        """Return the store after a request; `Refused` if a precondition does not hold."""
        plural, name = request.ref.kind.plural, request.ref.name
        found = store[plural].get(name)
        if request.verb == "create" and request.subresource == "binding":
            return self._bind(store, request, found)
        if request.verb == "create":
            return self._create(store, request, found)
        if found is None:
            if request.verb == "delete":
                return store
            raise Refused(404, "NotFound")
        self._check(request, found, request.uid, request.resource_version)
        if request.verb == "delete":
            return self._delete(store, plural, name, found)
        return self._patch(store, request, found)

    def _check(self, request: Request, found: Json, uid: str, version: str) -> None:
        if uid and meta(found)["uid"] != uid:
            if request.verb == "delete":
                raise Refused(404, "NotFound")
            raise Refused(409)
        if version and self.version(found) != version:
            raise Refused(409)

    def _create(self, store: Store, request: Request, found: Json | None) -> Store:
        name = request.ref.name
        if found is not None:
            label, value = request.owner_label or ("", "")
            if meta(found).get("labels", {}).get(label) != value:
                raise Refused(409, "Foreign")
            if "deletionTimestamp" in meta(found):
                raise Refused(409, "AlreadyExists")
            return store
        life = store["lives"].get(f"{request.ref.kind.plural}/{name}", 0) + 1
        body = copy.deepcopy(request.body)
        body["metadata"] = {**meta(body), "namespace": request.ref.namespace, "name": name, "uid": f"{name}#{life}"}
        lives = {**store["lives"], f"{request.ref.kind.plural}/{name}": life}
        return {**_with(store, request.ref.kind.plural, name, body), "lives": lives}

    def _patch(self, store: Store, request: Request, found: Json) -> Store:
        parts = {"status": request.body["status"]} if request.subresource else dict(request.body)
        if not request.subresource:
            parts.pop("status", None)
        strategic = request.content_type == STRATEGIC_PATCH
        merged = strategic_merge(found, parts, _KEYS) if strategic else merge_patch(found, parts)
        merged["metadata"] = {**meta(merged), "uid": meta(found)["uid"]}
        if request.ref.kind.plural == "candidates":
            _drop_what_phases_mean(merged)
        if request.ref.kind == PODS and request.subresource == "status":
            _check_status(found, merged)
        metadata = meta(merged)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            return _without(store, request.ref.kind.plural, request.ref.name)
        return _with(store, request.ref.kind.plural, request.ref.name, merged)

    def _delete(self, store: Store, plural: str, name: str, found: Json) -> Store:
        over = (found.get("status") or {}).get("phase") in ("Succeeded", "Failed")  # nobody has to stop what has ended
        running = plural == "pods" and found["spec"].get("nodeName") and not over
        if not meta(found).get("finalizers") and not running:
            return _without(store, plural, name)
        doomed = {**found, "metadata": {**meta(found), "deletionTimestamp": "now"}}
        return _with(store, plural, name, doomed)

    def _bind(self, store: Store, request: Request, found: Json | None) -> Store:
        if found is None:
            raise Refused(404, "NotFound")
        wanted = meta(request.body)
        self._check(request, found, wanted.get("uid", ""), wanted.get("resourceVersion", ""))
        if found["spec"].get("nodeName") or "deletionTimestamp" in meta(found):
            raise Refused(409)
        bound = {**found, "spec": {**found["spec"], "nodeName": request.body["target"]["name"]}}
        return _with(store, "pods", request.ref.name, bound)


def _drop_what_phases_mean(candidate: Json) -> None:
    """Leave of a Candidate's conditions those that its phase does not say, and no times."""
    status = candidate.get("status", {})
    kept = [{**one, "lastTransitionTime": ""} for one in status.pop("conditions", []) if one["type"] == APPLIED]
    status.update({"conditions": kept} if kept else {})


def _check_status(found: Json, merged: Json) -> None:
    try:
        check_pod_status(found, merged)
    except ApiRefusal as error:
        raise Refused(422, str(error)) from error


def _with(store: Store, plural: str, name: str, obj: Json) -> Store:
    return {**store, plural: {**store[plural], name: obj}}


def _without(store: Store, plural: str, name: str) -> Store:
    return {**store, plural: {key: obj for key, obj in store[plural].items() if key != name}}
