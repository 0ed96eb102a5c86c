"""Compares the pod sets of a job with those of a Workload, and tells what an admission puts into them.

In: facts of pod sets, an admission, flavors. Out: whether they are the same, what is injected, or why that can never
be. Pure. Sources: kubernetes-sigs/kueue pkg/podset/podset.go, pkg/util/equality/podset.go,
pkg/controller/jobframework/reconciler.go (`getPodSetsInfoFromStatus`, `EquivalentToWorkload`), ff69552e."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.kube.fields import items, number, section, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import KUEUE_PREFIX, POD_SET_LABEL, WORKER_POD
from controlplane.kube.pod_templates import containers_digest, digest
from controlplane.kube.slices import SLICE_NAME
from controlplane.kube.topologies import TOPOLOGY_GATE, UNCONSTRAINED, WORKLOAD

_LOCAL_QUEUE, _CLUSTER_QUEUE = "kueue.x-k8s.io/local-queue-name", "kueue.x-k8s.io/cluster-queue-name"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_OF_SLICES, _OF_QUEUES = frozenset({SLICE_NAME, WORKLOAD}), frozenset({_LOCAL_QUEUE, _CLUSTER_QUEUE})
_replace = msgspec.structs.replace

Flavors = Mapping[str, events.JobFlavorObserved]
FIELDS = ("annotations", "labels", "node_selector")
_SPELLED = {"annotations": "annotations", "labels": "labels", "node_selector": "nodeSelector"}


class Unstartable(ValueError):  # noqa: N818
    """A job can never be started as it was admitted; the text is Kueue's."""


class FlavorMissing(LookupError):  # noqa: N818
    """A flavor of an admission is not there, or not seen yet; the text is its name."""


def pod_set_facts(pod_set: Json) -> events.PodSetFacts:
    """Return what of a Workload's pod set is compared."""
    where = "spec.podSets[]"
    template = section(pod_set, "template", where)
    metadata, spec = meta(template), section(template, "spec", f"{where}.template")
    request = section(pod_set, "topologyRequest", where)
    return events.PodSetFacts(
        name=text(pod_set, "name", where),
        count=number(pod_set, "count", where),
        min_count=number(pod_set, "minCount", where) if pod_set.get("minCount") is not None else None,
        containers=containers_digest(template),
        labels={name: str(value) for name, value in section(metadata, "labels").items()},
        annotations={
            name: str(value) if name.startswith(KUEUE_PREFIX) else digest(value)
            for name, value in section(metadata, "annotations").items()
        },
        node_selector={name: str(value) for name, value in section(spec, "nodeSelector").items()},
        tolerations=items(spec, "tolerations", f"{where}.template.spec"),
        gates=[text(one, "name", "schedulingGates[]") for one in items(spec, "schedulingGates", where)],
        topology=any(request.get(one) is not None for one in ("required", "preferred", "unconstrained")),
        topology_request=request,
    )


def infos(workload: events.JobWorkloadObserved, flavors: Flavors) -> list[events.PodSetInfo]:
    """Return what each pod set was admitted with; `FlavorMissing`, or `Unstartable` if checks and flavors
    contradict."""
    by_name = {one.name: one for one in workload.pod_sets}
    return [_info(workload, one, by_name.get(one.name), flavors) for one in workload.assignments]


def info_of(info: events.PodSetInfo) -> Json:
    """Return what a pod set was admitted with, spelled as Kubernetes does."""
    found = {
        "name": info.name,
        "annotations": info.annotations,
        "labels": info.labels,
        "nodeSelector": info.node_selector,
        "tolerations": info.tolerations,
        "schedulingGates": [{"name": one} for one in info.gates],
    }
    return {name: value for name, value in found.items() if value}


def _info(
    workload: events.JobWorkloadObserved,
    assignment: events.PodSetAdmission,
    pod_set: events.PodSetFacts | None,
    flavors: Flavors,
) -> events.PodSetInfo:
    count = assignment.count if assignment.count is not None else pod_set.count if pod_set is not None else 0
    found = events.PodSetInfo(name=assignment.name, count=count)
    selector: dict[str, str] = {}
    tolerations: list[Json] = []
    for name in dict.fromkeys(assignment.flavors[resource] for resource in sorted(assignment.flavors)):
        flavor = flavors.get(name)
        if flavor is None:
            raise FlavorMissing(name)
        selector |= flavor.node_labels
        tolerations += flavor.tolerations
    labels = {POD_SET_LABEL: assignment.name, _LOCAL_QUEUE: workload.queue}
    if workload.origin:
        labels[WORKER_POD] = "true"
    if _DNS_LABEL.fullmatch(workload.cluster_queue):
        labels[_CLUSTER_QUEUE] = workload.cluster_queue
    notes, gates = {WORKLOAD: workload.name}, []
    if workload.slice is not None:
        notes[SLICE_NAME] = workload.slice.name
    if assignment.topology:
        gates = [TOPOLOGY_GATE]
        if pod_set is None or not pod_set.topology:
            notes[UNCONSTRAINED] = "true"
    found = _replace(
        found, labels=labels, annotations=notes, node_selector=selector, tolerations=tolerations, gates=gates
    )
    return _with_checks(found, workload)


def _with_checks(found: events.PodSetInfo, workload: events.JobWorkloadObserved) -> events.PodSetInfo:
    for check in workload.checks:
        update = next((one for one in check.updates if one.get("name") == found.name), None)
        if update is not None:
            try:
                found = merged(found, _of_update(update))
            except Unstartable as error:
                raise Unstartable(f'in admission check "{check.name}": {error}') from None
    return found


def _of_update(update: Json) -> events.PodSetInfo:
    return events.PodSetInfo(
        name="",
        count=0,
        labels=dict(update.get("labels") or {}),
        annotations=dict(update.get("annotations") or {}),
        node_selector=dict(update.get("nodeSelector") or {}),
        tolerations=list(update.get("tolerations") or ()),
    )


def merged(found: events.PodSetInfo, more: events.PodSetInfo) -> events.PodSetInfo:
    """Return what is injected by both; `Unstartable` if they say different things of one key."""
    check_conflicts(found, more)
    return _replace(
        found,
        **{field: getattr(found, field) | getattr(more, field) for field in FIELDS},
        tolerations=with_tolerations(found.tolerations, more.tolerations),
        gates=[*found.gates, *(one for one in more.gates if one not in found.gates)],
    )


def check_conflicts(found: events.PodSetInfo | events.PodSetFacts, more: events.PodSetInfo) -> None:
    """Raise `Unstartable` if a key has one value in what is there and another in what is to be put in.

    A template may name a slice or the Workload that an elastic job had before: that gives way
    (`overrideableAnnotations`). So do the queues that it was admitted to before, where its Workload went by force and
    nobody restored it: with Kueue it fails to start."""
    stale = _OF_QUEUES | (
        _OF_SLICES if isinstance(found, events.PodSetFacts) and SLICE_NAME in more.annotations else frozenset()
    )
    for field in FIELDS:
        there, wanted = getattr(found, field), getattr(more, field)
        for key in sorted((there.keys() & wanted.keys()).difference(stale)):
            if there[key] not in (wanted[key], digest(wanted[key])):  # of others' annotations digests are known
                said = f"conflict for key={key}, value1={there[key]}, value2={wanted[key]}"
                raise Unstartable(f"invalid admission check PodSetUpdate: conflict for {_SPELLED[field]}: {said}")


def with_tolerations(there: Sequence[Json], more: Sequence[Json]) -> list[Json]:
    """Return tolerations with those of others that are not among them."""
    found = list(there)
    for one in more:
        if all(_toleration(one) != _toleration(other) for other in found):
            found.append(one)
    return found


def _toleration(one: Json) -> tuple[object, ...]:
    operator = one.get("operator") or "Equal"
    return one.get("key") or "", operator, one.get("value") or "", one.get("effect") or "", one.get("tolerationSeconds")


def startable(job: events.QueuedJobObserved, found: Sequence[events.PodSetInfo], *, apart: bool = False) -> None:
    """Raise `Unstartable` if what was admitted cannot be put into a job's templates; `apart`: it is put beside them."""
    if len(found) != len(job.pod_sets):
        raise Unstartable(f"invalid podset infos: expecting {len(job.pod_sets)} podset, got {len(found)}")
    for one, info in zip(job.pod_sets, found, strict=True) if not apart else ():
        check_conflicts(one, info)


def is_restored(job: events.QueuedJobObserved, workload: events.JobWorkloadObserved | None) -> bool:
    """Whether a job's templates are those of its Workload, as far as an admission changes them."""
    if workload is None or len(job.pod_sets) != len(workload.pod_sets):
        return True
    return all(
        _directives(one) == _directives(other) for one, other in zip(job.pod_sets, workload.pod_sets, strict=True)
    )


def _directives(one: events.PodSetFacts) -> tuple[object, ...]:
    size = one.count if one.min_count is not None else None
    return one.annotations, one.labels, one.node_selector, one.tolerations, one.gates, size


def equivalent(job: events.QueuedJobObserved, workload: events.JobWorkloadObserved, flavors: Flavors) -> bool:
    """Whether a Workload is for this very job, and asks for what the job does."""
    owner = workload.owner
    if owner is None or owner.name != job.name or owner.uid != job.uid:
        return False
    if workload.max_execution_seconds != job.max_execution_seconds:
        return False
    tolerations = not workload.is_true("Admitted")
    running = _running(workload, flavors)
    if running is not None:
        if _same(job.pod_sets, running, tolerations=tolerations):
            return True
        return job.suspended and not job.stopping and _same(job.pod_sets, workload.pod_sets, tolerations=tolerations)
    return _same(job.pod_sets, workload.pod_sets, tolerations=tolerations)


def _running(workload: events.JobWorkloadObserved, flavors: Flavors) -> list[events.PodSetFacts] | None:
    """Return the pod sets that a job has while it runs with an admission; None if there is none that fits."""
    if not workload.is_true("QuotaReserved"):
        return None
    try:
        by_name = {one.name: one for one in infos(workload, flavors)}
        found = []
        partial = any(one.min_count is not None and one.count > one.min_count for one in workload.pod_sets)
        for one in workload.pod_sets:
            info = by_name[one.name]
            check_conflicts(one, info)
            count = info.count if partial and one.min_count is not None else one.count
            found.append(_replace(one, count=count, tolerations=with_tolerations(one.tolerations, info.tolerations)))
    except (Unstartable, LookupError):
        return None
    return found


def _same(one: Sequence[events.PodSetFacts], other: Sequence[events.PodSetFacts], *, tolerations: bool) -> bool:
    return len(one) == len(other) and all(
        a.count == b.count
        and a.min_count == b.min_count
        and a.containers == b.containers
        and (not tolerations or a.tolerations == b.tolerations)
        for a, b in zip(one, other, strict=True)
    )
