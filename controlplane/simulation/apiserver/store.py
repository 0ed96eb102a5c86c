"""One simulated cluster's objects, as a Kubernetes API server keeps them: synchronous, deterministic, without I/O.

In: the verbs, called directly by simulated controllers or by the HTTP server. Out: objects, `ApiError`s with
Kubernetes' own words, and one event per change to every subscriber. Time and uids come from outside, so the same calls
give the same objects. Stored objects are never changed in place and never handed out: who receives an object may do
with it what he likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from controlplane.kube.kinds import APPLY_PATCH, JOBS, MERGE_PATCH, NAMESPACES, PODS, Json, Kind, meta
from controlplane.simulation.apiserver import errors, managed_fields
from controlplane.simulation.apiserver.commits import CommitLog
from controlplane.simulation.apiserver.field_sets import FieldSchema
from controlplane.simulation.apiserver.history import Record, record_of
from controlplane.simulation.apiserver.index import RecordIndex
from controlplane.simulation.apiserver.job_status import check_job_status
from controlplane.simulation.apiserver.objects import (
    applied_configuration,
    carry_over,
    check_delete_options,
    check_finalizers,
    check_identity,
    check_metadata,
    check_preconditions,
    check_type,
    check_uid,
    defaults,
    detach,
    drop_empty,
    generated_name,
    manageable,
    mark_deleted,
    next_generation,
)
from controlplane.simulation.apiserver.patches import patched
from controlplane.simulation.apiserver.pod_status import check_pod_status
from controlplane.simulation.apiserver.pods import grace_of, stamp, waits
from controlplane.simulation.apiserver.read import StoreEvent, StoreReader
from controlplane.simulation.controllers.garbage_collector import (
    PROPAGATION_FINALIZERS,
    Collector,
    check_namespace,
    deleting,
    finalizers,
)
from controlplane.simulation.kinds.base import METADATA_LISTS, ServedKind

__all__ = ["Admission", "ServedKind", "Store", "StoreEvent"]

Operation = Literal["create", "update", "delete"]
Admission = Callable[[Operation, Kind, str, Json | None, Json | None], None]

_UNKNOWN = "unknown"
_STATUSES = {JOBS: check_job_status, PODS: check_pod_status}  # what is held against a new status, by kind
_FIRST_NAMESPACES = ("default", "kube-system")


class Store(StoreReader):
    """The objects of one cluster.

    `admission` hooks are called as `(operation, kind, subresource, old, new)` before anything is stored: they may raise
    `ApiError` or change `new`; `old` is for reading. All verbs raise `ApiError`: 404 for objects and kinds that are not
    there, 409 for preconditions, 422 for objects that are not valid. With `dry_run` they do everything but store.
    `graceful`: pods on nodes wait for their kubelet to say that they have stopped; where nobody plays kubelets they
    would wait for ever."""

    def __init__(
        self,
        name: str,
        *,
        kinds: Iterable[ServedKind],
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        history: int = 10_000,
    ) -> None:
        self.name, self.now, self._new_uid = name, now, new_uid
        self.admission: list[Admission] = []
        self.graceful = False
        self.served: dict[Kind, ServedKind] = {served.kind: served for served in kinds}
        self._schemas = {
            kind: FieldSchema({**METADATA_LISTS, **served.list_map_keys}, served.builtin)
            for kind, served in self.served.items()
        }
        self._index = RecordIndex()
        self._collector = Collector(self, self._index)
        self._log = CommitLog(self.served, self._index, self._collector, history)
        for namespace in _FIRST_NAMESPACES if NAMESPACES in self.served else ():
            self.create(NAMESPACES, {"metadata": {"name": namespace}}, field_manager="kube-apiserver")

    def create(self, kind: Kind, obj: Json, *, field_manager: str = "", dry_run: bool = False) -> Json:
        """Create an object and return it; 409 `AlreadyExists` if the name is taken, 404 if its namespace is not
        there.
        """
        served = self._serving(kind)
        new = detach(obj)
        check_type(kind, new, builtin=served.builtin)
        if new["metadata"].get("resourceVersion"):
            raise errors.ApiRefusal(500, "", "resourceVersion should not be set on objects to be created")
        new["metadata"].pop("managedFields", None)
        return self._insert(served, new, self._writer(kind, field_manager), dry_run=dry_run).copy()

    def update(
        self, kind: Kind, obj: Json, *, subresource: str = "", field_manager: str = "", dry_run: bool = False
    ) -> Json:
        """Replace an object (PUT); 409 `Conflict` if its resourceVersion is not the stored one."""
        served = self._serving(kind, subresource)
        new = detach(obj)
        check_type(kind, new, builtin=served.builtin)
        metadata = new["metadata"]
        old = self.record(kind, metadata.get("namespace", ""), metadata.get("name", ""))
        check_uid(kind, old.obj["metadata"], metadata)
        if not metadata.get("resourceVersion") and not served.builtin:
            cause = errors.Cause(
                "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update"
            )
            raise errors.invalid(kind, old.name, [cause])
        writer = self._writer(kind, field_manager, subresource)
        return self._replace(served, old, new, writer, dry_run=dry_run).copy()

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Json | Sequence[Json],
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Json:
        """Patch an object and return it; an apply patch creates what is not there.

        409 `Conflict` if the patched metadata names another uid or resourceVersion, or an apply meets other owners;
        415 for a patch type that the kind does not take; 422 if a JSON patch does not fit.
        """
        if content_type == APPLY_PATCH:
            if not isinstance(patch, dict):
                raise errors.bad_request("an apply patch is one object")
            return self.apply(
                kind,
                namespace,
                name,
                patch,
                subresource=subresource,
                field_manager=field_manager,
                force=force,
                dry_run=dry_run,
            )[0]
        served = self._serving(kind, subresource)
        old = self.record(kind, namespace, name)
        list_keys = {**self._schemas[kind].list_keys, **served.strategic_keys}
        new = detach(patched(old.obj, patch, content_type, list_keys=list_keys, builtin=served.builtin))
        check_identity(kind, old.obj["metadata"], new["metadata"])
        writer = self._writer(kind, field_manager, subresource)
        return self._replace(served, old, new, writer, dry_run=dry_run).copy()

    def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        config: Json,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> tuple[Json, bool]:
        """Apply a configuration on the server's side; return the object and whether it was created."""
        served = self._serving(kind, subresource)
        if not field_manager:
            raise errors.options_invalid("PatchOptions", "fieldManager", "Required value: is required for apply patch")
        config = applied_configuration(served, namespace, name, config)
        old = self._index.get(kind, namespace if kind.namespaced else "", name)
        writer = self._writer(kind, field_manager, subresource, "Apply")
        if old is None:
            return self._apply_new(served, config, writer, dry_run=dry_run), True
        check_identity(kind, old.obj["metadata"], config["metadata"])
        wanted = manageable(served, config, subresource)
        new = detach(managed_fields.apply(old.obj, wanted, writer, self._schemas[kind], force=force))
        entries = new["metadata"]["managedFields"]
        return self._replace(served, old, new, writer, entries=entries, dry_run=dry_run).copy(), False

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Delete an object; return it if finalizers or a kubelet still hold it, else a Status. 409 `Conflict` if a
        precondition does not hold. `grace` is in seconds, None for the pod's own.
        """
        record = self.record(kind, namespace, name)
        check_delete_options(kind, record.obj["metadata"], uid, resource_version)
        self._admit("delete", kind, "", record.obj, None)
        if dry_run:
            return errors.success_body(kind, name, record.uid)
        held = self.remove(record, propagation, grace)
        return held.copy() if held is not None else errors.success_body(kind, name, record.uid)

    # What the collector uses

    def overwrite(self, kind: Kind, obj: Json, *, field_manager: str, dry_run: bool = False) -> Record:
        """Store what the server itself made of an object, spec and status alike."""
        old, new = self.record(kind, meta(obj).get("namespace", ""), meta(obj)["name"]), detach(obj)
        writer = self._writer(kind, field_manager)
        next_generation(self.served[kind], old.obj, new)
        new["metadata"]["managedFields"] = managed_fields.track_update(old.obj, new, writer, self._schemas[kind])
        return old if dry_run else self._log.commit("MODIFIED", kind, new, old)

    def remove(self, record: Record, propagation: str, grace: int | None = None) -> Record | None:
        """Delete a record, or mark it deleted and return it if a finalizer or a kubelet holds it."""
        own = [name for name in finalizers(record.obj) if name not in PROPAGATION_FINALIZERS.values()]
        if propagation in PROPAGATION_FINALIZERS:
            own.append(PROPAGATION_FINALIZERS[propagation])
        seconds = grace_of(record, grace) if self.graceful else 0
        if not own and not seconds and record.kind != NAMESPACES:
            self.expunge(record)
            return None
        metadata = dict(record.obj["metadata"])
        metadata["finalizers"] = own
        if not deleting(record) or seconds < metadata.get("deletionGracePeriodSeconds", 0):
            mark_deleted(metadata, self._timestamp(seconds), seconds)
        drop_empty(metadata)
        new = {**record.obj, "metadata": metadata}
        if record.kind == NAMESPACES:
            new["status"] = {"phase": "Terminating"}
        if new == record.obj:
            return record
        held = self._log.commit("MODIFIED", record.kind, new, record)
        self._collector.drain()
        return held

    def amend(self, record: Record, metadata: Json) -> None:
        """Change metadata fields on behalf of the system."""
        new = detach({**record.obj, "metadata": {**record.obj["metadata"], **metadata}})
        writer = self._writer(record.kind, "kube-controller-manager")
        self._replace(self.served[record.kind], record, new, writer)

    def expunge(self, record: Record) -> None:
        """Take a record out, finalizers or not."""
        self._log.commit("DELETED", record.kind, {**record.obj, "metadata": dict(record.obj["metadata"])}, record)
        self._collector.drain()

    # Within

    def _timestamp(self, later: int = 0) -> str:
        return stamp(self.now() + timedelta(seconds=later))

    def _writer(
        self, kind: Kind, manager: str, subresource: str = "", operation: Literal["Apply", "Update"] = "Update"
    ) -> managed_fields.FieldWriter:
        return managed_fields.FieldWriter(
            manager or _UNKNOWN, operation, subresource, kind.api_version, self._timestamp()
        )

    def _admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        for hook in self.admission:
            hook(operation, kind, subresource, old, new)

    def _apply_new(
        self, served: ServedKind, config: Json, writer: managed_fields.FieldWriter, *, dry_run: bool
    ) -> Json:
        kind, metadata = served.kind, config["metadata"]
        if writer.subresource:
            raise errors.not_found(kind, metadata["name"])
        if metadata.get("uid"):
            why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise errors.conflict(kind, metadata["name"], why)
        metadata.pop("resourceVersion", None)
        wanted = manageable(served, config, "")
        new = detach(managed_fields.apply(None, wanted, writer, self._schemas[kind], force=True))
        return self._insert(served, new, writer, entries=new["metadata"]["managedFields"], dry_run=dry_run).copy()

    def _insert(
        self,
        served: ServedKind,
        new: Json,
        writer: managed_fields.FieldWriter,
        *,
        entries: Sequence[Json] | None = None,
        dry_run: bool = False,
    ) -> Record:
        kind, metadata = served.kind, new["metadata"]
        if kind.namespaced:
            check_namespace(kind, metadata, self._index, enforced=NAMESPACES in self.served)
        else:
            metadata.pop("namespace", None)
        metadata |= {"uid": self._new_uid(), "creationTimestamp": self._timestamp()}
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink"):
            metadata.pop(key, None)
        if served.generation:
            metadata["generation"] = 1
        if not metadata.get("name") and metadata.get("generateName"):
            space = metadata.get("namespace", "")
            metadata["name"] = generated_name(
                metadata, self._new_uid, lambda name: self._index.get(kind, space, name) is not None
            )
        check_metadata(kind, metadata)
        defaults(served, new)
        self._admit("create", kind, "", None, new)
        if self._index.get(kind, metadata.get("namespace", ""), metadata["name"]) is not None:
            raise errors.already_exists(kind, metadata["name"])
        drop_empty(metadata)
        tracked = (
            entries if entries is not None else managed_fields.track_update(None, new, writer, self._schemas[kind])
        )
        metadata["managedFields"] = list(tracked)
        if dry_run:
            return record_of(kind, {**new, "metadata": {**metadata, "resourceVersion": "0"}})
        record = self._log.commit("ADDED", kind, new, None)
        self._collector.drain()
        return record

    def _replace(
        self,
        served: ServedKind,
        old: Record,
        new: Json,
        writer: managed_fields.FieldWriter,
        *,
        entries: Sequence[Json] | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Store `new`, which is private, in place of `old`, if it differs. What is being deleted goes with its last
        finalizer.
        """
        kind = served.kind
        check_preconditions(served, old.obj["metadata"], new["metadata"], writer.subresource)
        # Hooks may change `new` in place, so it must not share anything with the stored object.
        carry_over(served, old.copy() if self.admission else old.obj, new, writer.subresource)
        self._admit("update", kind, writer.subresource, old.obj, new)
        if writer.subresource == "status" and kind in _STATUSES:
            _STATUSES[kind](old.obj, new)
        metadata = new["metadata"]
        check_metadata(kind, metadata)
        check_finalizers(kind, old.obj["metadata"], metadata)
        next_generation(served, old.obj, new)
        tracked = (
            entries if entries is not None else managed_fields.track_update(old.obj, new, writer, self._schemas[kind])
        )
        metadata["managedFields"] = list(tracked)
        drop_empty(metadata)
        if new == old.obj:
            return old
        if dry_run:
            return record_of(kind, new)
        if deleting(old) and not finalizers(new) and not waits(new) and kind != NAMESPACES:
            self.expunge(old)
            return record_of(kind, new)
        record = self._log.commit("MODIFIED", kind, new, old)
        self._collector.drain()
        return record
