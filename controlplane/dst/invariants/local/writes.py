"""Whose objects are written, and what of them: only ours, or the fields that are ours; and nothing is deleted but
exactly what was meant.

In: every write of the processes as the API server carried it out. Out: a violation. A delete names the UID of what is
there; a patch names the UID and, where others write too, the version; what a plan planted beside is left alone."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.podgroups.membership import OWNER_LABEL
from controlplane.controllers.podgroups.objects import GROUP_NAME
from controlplane.controllers.podgroups.observe import PROBLEM_NOTE, RULES_NOTE
from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.hosted import is_placeholder, labels_of
from controlplane.dst.scenes.local.processes import CONTROLLERS
from controlplane.kube.kinds import EVENTS, PIPELINE_RUNS, PODS, Json, Kind, meta
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.controllers.workload_owners import controller_of
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.own_cluster import CLAIMS, POD_GROUPS, STATEFUL_SETS, TASK_RUNS

RULE = "only what is ours is written"
_PRECONDITION = {"delete": "the precondition names", "patch": "the patch is for"}


class LocalOwnershipRules:
    """`foreign` is what a plan planted: UID to what may be written of it all the same ("status" or nothing)."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.foreign: dict[str, str] = {}

    def on_written(self, write: Written) -> None:
        """Look at a write that was carried out."""
        wrong = self._wrong(write)
        if wrong:
            self._trace.violate(RULE, f"{write.process}: {write.verb} {write.kind.kind} {write.name}: {wrong}")

    def _wrong(self, write: Written) -> str:
        before = write.before
        if before is not None and before.uid in self.foreign and not _is_allowed(write, self.foreign[before.uid]):
            return "it is somebody else's"
        rules = _CONTROLLERS if write.process.startswith(CONTROLLERS) else _SCHEDULER
        rule = rules.get((write.verb, write.kind))
        if rule is None:
            return "no such write is decided by anybody"
        if write.verb in _PRECONDITION and (before is None or write.uid != before.uid):
            return f"{_PRECONDITION[write.verb]} the UID {write.uid or '(none)'}"
        return rule(write)


def _is_allowed(write: Written, allowed: str) -> bool:
    """Whether a write of what is somebody else's is a patch of the one part that may be written."""
    return bool(allowed) and write.verb == "patch" and not set(write.body) - {"metadata", allowed}


def _made_for_a_run(write: Written) -> str:
    owner = controller_of(write.body)
    if write.kind == STATEFUL_SETS and not is_placeholder(labels_of(write.body)):
        return "it is no placeholder"
    return "" if owner.get("kind") == PIPELINE_RUNS.kind and owner.get("uid") else "no run owns it"


def _own_group(write: Written) -> str:
    owner = controller_of(write.body)
    owners = meta(write.body).get("ownerReferences") or []
    if len(owners) != 1 or not owner.get("uid"):
        return "it has not exactly one owner, which controls it"
    if write.name != f"podgroup-{owner['uid']}" or meta(write.body)["labels"].get(OWNER_LABEL) != owner["uid"]:
        return "its name or its mark is not its owner's"
    return ""


def _group_fields(write: Written) -> str:
    assert write.before is not None
    ours = OWNER_LABEL in write.before.labels
    if not write.resource_version:
        return "without a resourceVersion"
    return "" if ours or not set(write.body) - {"metadata", "status"} else "its spec is somebody else's"


def _annotations(*names: str) -> Callable[[Written], str]:
    def check(write: Written) -> str:
        noted = meta(write.body).get("annotations") or {}
        if not write.resource_version:
            return "without a resourceVersion"
        named = {"annotations", "uid", "resourceVersion"}
        more = set(write.body) - {"metadata"} | set(meta(write.body)) - named | set(noted) - set(names)
        return f"it writes {', '.join(sorted(more))}" if more else ""

    return check


def _finalizers(write: Written) -> str:
    assert write.before is not None
    if set(write.body) != {"metadata"} or set(meta(write.body)) - {"finalizers", "uid", "resourceVersion"}:
        return "it writes more than finalizers"
    if "deletionTimestamp" not in meta(write.before.obj):
        return "it is not being deleted"
    return _placeholders(write)


def _placeholders(write: Written) -> str:
    return "" if write.before is not None and is_ours(write.before) else "it was not made for a run"


def is_ours(record: Record) -> bool:
    """Whether an object was made for a run: it is marked so, and what owns it is a run, or what was made for one."""
    obj: Json = record.obj
    owners = [str(one.get("kind")) for one in meta(obj).get("ownerReferences") or ()]
    if record.kind == CLAIMS:
        return PIPELINE_RUNS.kind in owners or (is_placeholder(record.labels) and not owners)
    wanted = PIPELINE_RUNS.kind if record.kind == STATEFUL_SETS else STATEFUL_SETS.kind
    return is_placeholder(record.labels) and owners == [wanted]


def _status(write: Written) -> str:
    if write.subresource != "status":
        return "only its status is written"
    return "" if write.resource_version else "without a resourceVersion"


def _cancelled(write: Written) -> str:
    """A task may only be told to end, with a reason."""
    spec = write.body.get("spec") or {}
    if set(spec) != {"status", "statusMessage"} or spec["status"] != "TaskRunCancelled" or not spec["statusMessage"]:
        return "it is more, or less, than told to end and why"
    return ""


def _pod_status(write: Written) -> str:
    return "" if write.subresource == "status" else "only its status is written"


def _conditions(write: Written) -> str:
    more = set(write.body) - {"metadata", "status"} | set(write.body.get("status") or {}) - {"conditions"}
    return f"it writes {', '.join(sorted(more))}" if more or not write.resource_version else ""


def _bound(write: Written) -> str:
    return "" if meta(write.body).get("uid") else "without the pod's UID"


def _free(write: Written) -> str:
    return ""


_CONTROLLERS: dict[tuple[str, Kind], Callable[[Written], str]] = {
    ("create", EVENTS): _free,
    ("create", POD_GROUPS): _own_group,
    ("create", STATEFUL_SETS): _made_for_a_run,
    ("create", CLAIMS): _made_for_a_run,
    ("patch", POD_GROUPS): _group_fields,
    ("patch", PODS): _annotations(GROUP_NAME, PROBLEM_NOTE),
    ("patch", CONFIG_MAPS): _annotations(RULES_NOTE),
    ("patch", CLAIMS): _finalizers,
    ("patch", PIPELINE_RUNS): _status,
    ("patch", TASK_RUNS): _cancelled,
    ("delete", PODS): _placeholders,
    ("delete", STATEFUL_SETS): _placeholders,
    ("delete", CLAIMS): _placeholders,
}
_SCHEDULER: dict[tuple[str, Kind], Callable[[Written], str]] = {
    ("create", EVENTS): _free,
    ("binding", PODS): _bound,
    ("patch", PODS): _pod_status,
    ("patch", POD_GROUPS): _conditions,
}
