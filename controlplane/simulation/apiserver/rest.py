"""The verbs of the REST protocol, except watch: one request in, one answer out, no connection in sight.

In: a route, the query, the headers that matter and the body. Out: a status and bytes. Protocol rules (resourceVersion
semantics of lists, chunked lists, options of writes) live here; what a write does to an object is the store's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from controlplane.kube.kinds import APPLY_PATCH, JOBS, PODS, Json
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.core_events import to_core, to_stored
from controlplane.simulation.apiserver.decoding import check_applied, check_body, check_patched
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.pod_subresources import SUBRESOURCES, bind, evict
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE, DecodingError, decode
from controlplane.simulation.apiserver.representation import Representation
from controlplane.simulation.apiserver.routes import ResourceRoute, truthy
from controlplane.simulation.apiserver.selectors import field_test, label_test
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import ServedKind
from controlplane.simulation.schemas.messages import Message, kubernetes
from controlplane.simulation.schemas.strictness import unknown_fields


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request for a resource. `content_type` has no parameters; `agent` is the User-Agent."""

    route: ResourceRoute
    query: Mapping[str, str]
    content_type: str
    agent: str
    body: bytes
    shown: Representation

    @property
    def manager(self) -> str:
        """The field manager: named in the query, else the program in the User-Agent, as a real server has it."""
        return self.query.get("fieldManager") or self.agent.split("/", 1)[0][:128]

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored; 422 for a value that is not `All`."""
        asked = self.query.get("dryRun", "")
        if asked not in ("", "All"):
            raise errors.options_invalid(
                "CreateOptions", "dryRun", f'Unsupported value: "{asked}": supported values: "All"'
            )
        return bool(asked)

    def message(self, name: str) -> Message | None:
        """The message that the body is, if it is one: None for JSON and YAML."""
        return kubernetes()[name] if self.content_type == MEDIA_TYPE else None


@dataclass(frozen=True, slots=True)
class Response:
    """A status and a JSON body."""

    status: int
    body: bytes


Predicate = Callable[[Record], bool]


def selection(served: ServedKind, query: Mapping[str, str], shown: Representation, name: str = "") -> Predicate | None:
    """Return which records a list or watch selects by labels, fields and (from the path) name; None for all."""
    labels = label_test(query.get("labelSelector", ""))
    fields = field_test(query.get("fieldSelector", ""), served.selectable)
    if labels is None and fields is None and not name:
        return None

    def selected(record: Record) -> bool:
        return (
            (labels is None or labels(record.labels))
            and (fields is None or fields(shown.object(record)))
            and (not name or record.name == name)
        )

    return selected


def number_of(query: Mapping[str, str], name: str) -> int:
    """Return a parameter that counts (resourceVersion, limit, timeoutSeconds), 0 if it is not there; 400 for anything
    else.
    """
    text = query.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise errors.bad_request(f'Invalid value: "{text}": {name} must be a non-negative integer')
    return int(text)


def parse_body(body: bytes, *, yaml_too: bool = False, message: Message | None = None) -> Any:
    """Return a JSON (or YAML) body, or one in protobuf if it is to be a `message`; 400 if it does not parse."""
    if message is not None:
        try:
            return decode(body, message)
        except DecodingError as error:
            raise errors.bad_request(f"error decoding the body: {error}") from error
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if not yaml_too:
            raise errors.bad_request(f"error decoding the body: {error}") from error
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise errors.bad_request(f"error decoding the body: {error}") from error


class Rest:
    """The verbs of one server. Each raises `ApiError` for what is answered with a Status."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._verbs: dict[str, Callable[[ApiCall], Response]] = {
            "list": self._list,
            "get": self._get,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def call(self, call: ApiCall) -> Response:
        """Carry out one request."""
        served = call.route.served
        if served.kind == PODS and call.route.subresource in SUBRESOURCES:
            return self._act(call)
        if call.route.subresource not in (("", "status") if served.status_subresource else ("",)):
            raise errors.no_such_resource()
        return self._verbs[call.route.verb](call)

    def _get(self, call: ApiCall) -> Response:
        record = self.store.record(call.route.served.stored, call.route.namespace, call.route.name)
        return Response(200, call.shown.one(record))

    def _list(self, call: ApiCall) -> Response:
        records, version, token = self._listed(call.route, call.query)
        wanted = selection(call.route.served, call.query, call.shown)
        if wanted is not None:
            records = [record for record in records if wanted(record)]
        after = _start(token)
        if after is not None:
            records = [record for record in records if record.place > after]
        metadata: Json = {"resourceVersion": str(version)}
        limit = number_of(call.query, "limit")
        if 0 < limit < len(records):
            metadata["continue"] = _continue(version, records[limit - 1])
            if wanted is None:
                metadata["remainingItemCount"] = len(records) - limit
            records = records[:limit]
        return Response(200, call.shown.many(records, metadata))

    def _listed(self, route: ResourceRoute, query: Mapping[str, str]) -> tuple[list[Record], int, Json]:
        """Return the records of a kind at the resourceVersion that is asked for, that version, and the continue
        token.
        """
        kind, current = route.served.stored, self.store.version
        token = _token(query.get("continue", ""))
        match, asked = query.get("resourceVersionMatch", ""), number_of(query, "resourceVersion")
        if match and not query.get("resourceVersion"):
            why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise errors.options_invalid("ListOptions", "resourceVersionMatch", why)
        if match not in ("", "Exact", "NotOlderThan"):
            why = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
            raise errors.options_invalid("ListOptions", "resourceVersionMatch", why)
        records = self.store.records(kind, route.namespace or None)
        exact = int(token["rv"]) if token else asked if match == "Exact" else 0
        if max(asked, exact) > current:
            raise errors.too_large(max(asked, exact), current)
        if not exact:
            return records, current, token
        past = self.store.ring(kind).rewind(self.store.records(kind), exact)
        namespace = route.namespace
        return sorted((r for r in past if not namespace or r.namespace == namespace), key=_place), exact, token

    def _create(self, call: ApiCall) -> Response:
        route = call.route
        obj = self._placed(call, self._decoded(call))
        created = self.store.create(route.served.stored, obj, field_manager=call.manager, dry_run=call.dry_run)
        return self._shown(call, created, 201)

    def _act(self, call: ApiCall) -> Response:
        """Carry out a POST to a pod's binding or eviction."""
        route, dry_run = call.route, call.dry_run
        if route.verb != "create":
            raise errors.method_not_allowed()
        posted = "core.Binding" if route.subresource == "binding" else "policy.Eviction"
        body = parse_body(call.body, yaml_too="yaml" in call.content_type, message=call.message(posted))
        if not isinstance(body, dict):
            raise errors.bad_request("the object provided is unrecognized (must be of type Object)")
        if route.subresource == "binding":
            done = bind(self.store, route.namespace, route.name, body, manager=call.manager, dry_run=dry_run)
        else:
            done = evict(self.store, route.namespace, route.name, body, dry_run=dry_run)
        return Response(201, orjson.dumps(done))

    def _update(self, call: ApiCall) -> Response:
        route = call.route
        obj = self._placed(call, self._decoded(call))
        if obj["metadata"].setdefault("name", route.name) != route.name:
            raise errors.bad_request(
                f"the name of the object ({obj['metadata']['name']}) does not match the name on the URL ({route.name})"
            )
        updated = self.store.update(
            route.served.stored, obj, subresource=route.subresource, field_manager=call.manager, dry_run=call.dry_run
        )
        return self._shown(call, updated, 200)

    def _patch(self, call: ApiCall) -> Response:
        route, dry_run = call.route, call.dry_run
        body = parse_body(call.body, yaml_too=call.content_type == APPLY_PATCH)
        kind, force = route.served.stored, truthy(call.query.get("force"))
        if call.content_type == APPLY_PATCH:
            if not isinstance(body, dict):
                raise errors.bad_request("an apply patch is one object")
            self._validated(call, body)
            if route.served.builtin:
                check_applied(kind, route.namespace, route.name, body)
            manager = call.query.get("fieldManager", "")
            applied, created = self.store.apply(
                kind, route.namespace, route.name, self._stored(call, body),
                subresource=route.subresource, field_manager=manager, force=force, dry_run=dry_run,
            )  # fmt: skip
            return self._shown(call, applied, 201 if created else 200)
        if force:
            raise errors.options_invalid("PatchOptions", "force", "Forbidden: may not be specified for non-apply patch")
        if isinstance(body, dict):
            body = self._stored(call, body)
        if isinstance(body, dict):
            self._validated(call, body)
        if route.served.builtin:
            check_patched(kind, route.name, body if isinstance(body, dict) else self._tried(call, body))
        patched = self.store.patch(
            kind, route.namespace, route.name, body,
            content_type=call.content_type, subresource=route.subresource, field_manager=call.manager, dry_run=dry_run,
        )  # fmt: skip
        return self._shown(call, patched, 200)

    def _tried(self, call: ApiCall, operations: Any) -> Json:
        """Return what a JSON patch would make of an object: its operations do not say what types they leave behind."""
        route = call.route
        return self.store.patch(
            route.served.stored, route.namespace, route.name, operations,
            content_type=call.content_type, subresource=route.subresource, field_manager=call.manager, dry_run=True,
        )  # fmt: skip

    def _decoded(self, call: ApiCall) -> Any:
        """Return a body that is a whole object, if it decodes; 400 if it does not."""
        served = call.route.served
        known = kubernetes().of(served.kind)
        message = call.message(known.name) if known is not None else None
        if call.content_type == MEDIA_TYPE and message is None:
            raise errors.unsupported_media(["application/json", "application/yaml"])
        body = parse_body(call.body, yaml_too="yaml" in call.content_type, message=message)
        if isinstance(body, dict):
            self._validated(call, body)
            if served.builtin:
                check_body(served.kind, body)
        return body

    def _validated(self, call: ApiCall, body: Json) -> None:
        """Refuse fields that the kind does not have, if the query says `fieldValidation=Strict`, as kubectl's does; 422
        for another word than those that there are.
        """
        asked, kind = call.query.get("fieldValidation", ""), call.route.served.kind
        if asked not in ("", "Ignore", "Warn", "Strict"):
            why = f'Unsupported value: "{asked}": supported values: "Ignore", "Strict", "Warn"'
            raise errors.options_invalid("CreateOptions", "fieldValidation", why)
        message = kubernetes().of(kind)
        if asked == "Strict" and message is not None and (unknown := unknown_fields(message, body)):
            raise errors.not_strict(kind, unknown)

    def _delete(self, call: ApiCall) -> Response:
        route = call.route
        options = self._delete_options(call)
        deleted = self.store.delete(route.served.stored, route.namespace, route.name, **options)
        return (
            self._shown(call, deleted, 200) if deleted.get("kind") != "Status" else Response(200, orjson.dumps(deleted))
        )

    def _delete_collection(self, call: ApiCall) -> Response:
        route = call.route
        options = self._delete_options(call)
        wanted = selection(route.served, call.query, call.shown)
        kind = route.served.stored
        chosen = [r for r in self.store.records(kind, route.namespace or None) if wanted is None or wanted(r)]
        for record in chosen:
            self.store.delete(kind, record.namespace, record.name, **options)
        return Response(200, call.shown.many(chosen, {"resourceVersion": str(self.store.version)}))

    def _delete_options(self, call: ApiCall) -> dict[str, Any]:
        """Return preconditions and propagation, from the body first. A Job's dependents are orphaned by default, as
        batch/v1 has it.
        """
        options = parse_body(call.body, message=call.message("meta.DeleteOptions")) if call.body.strip() else {}
        if not isinstance(options, dict):
            raise errors.bad_request("the body is not a DeleteOptions object")
        preconditions = options.get("preconditions") or {}
        return {
            "uid": preconditions.get("uid") or "",
            "resource_version": preconditions.get("resourceVersion") or "",
            "grace": options.get("gracePeriodSeconds", _seconds(call.query.get("gracePeriodSeconds"))),
            "propagation": _propagation(call, options),
            "dry_run": call.dry_run or options.get("dryRun") == ["All"],
        }

    def _placed(self, call: ApiCall, obj: Any) -> Json:
        """Return a body as it is to be stored, its namespace filled in from the path; 400 if it says another."""
        if not isinstance(obj, dict):
            raise errors.bad_request("the object provided is unrecognized (must be of type Object)")
        if not isinstance(obj.setdefault("metadata", {}), dict):
            raise errors.bad_request("metadata must be an object")
        if call.route.served.kind.namespaced:
            namespace = obj["metadata"].get("namespace") or call.route.namespace
            if namespace != call.route.namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            obj["metadata"]["namespace"] = namespace
        return self._stored(call, obj)

    def _stored(self, call: ApiCall, obj: Json) -> Json:
        return to_stored(obj) if call.route.served.stored_as is not None else obj

    def _shown(self, call: ApiCall, obj: Json, status: int) -> Response:
        return Response(status, orjson.dumps(to_core(obj) if call.route.served.stored_as is not None else obj))


def _seconds(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdigit() else None


def _place(record: Record) -> tuple[str, str]:
    return record.place


def _continue(version: int, last: Record) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{last.namespace}/{last.name}"}
    return base64.urlsafe_b64encode(orjson.dumps(token)).decode().rstrip("=")


def _token(text: str) -> Json:
    if not text:
        return {}
    try:
        token: Json = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        int(token["rv"])
        str(token["start"])
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
    return token


def _start(token: Json) -> tuple[str, str] | None:
    if not token:
        return None
    namespace, _, name = token["start"].partition("/")
    return namespace, name


def _propagation(call: ApiCall, options: Json) -> str:
    asked = options.get("propagationPolicy") or call.query.get("propagationPolicy")
    if asked:
        return str(asked)
    orphans = options.get("orphanDependents")
    if orphans is None:
        orphans = call.route.served.kind == JOBS
    return "Orphan" if orphans else "Background"
