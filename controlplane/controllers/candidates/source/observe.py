"""From an object that an API server showed to the event that is recorded of it on the source side.

In: cluster, incarnation, the change. Out: events on source pods' streams with their bodies and identity; none for what
concerns nobody. What a target writes is not trusted: a Candidate that does not fit becomes
`CandidateObservationRefused` and the rest goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from controlplane.controllers.candidates import constraints, objects, readiness
from controlplane.controllers.candidates.objects import CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references import decide, needs
from controlplane.controllers.candidates.references.decide import NamedObject
from controlplane.controllers.candidates.source import observations
from controlplane.controllers.candidates.source.delegate_status import ended, rejection, restarts_of
from controlplane.controllers.candidates.source.policy import LARGEST_SKEW, LONGEST_WAIT, MODES, MOST_CANDIDATES
from controlplane.controllers.candidates.source.state import source_stream
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube import fields
from controlplane.kube.conditions import Condition, conditions_of
from controlplane.kube.fields import Misfit, section, text
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.log.event import Body, NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class SourceObserver:
    """Builds the source side's events. `cluster` is our own name, and `identity` what our cluster is known by,
    "" where that cannot be read, None before it was asked for: candidates of other sources concern others, also of one
    that was given our name.

    `stream_of(cluster, uid)` tells where a candidate was recorded: of one that vanished unseen only the name is known.
    One that came in the same breath is not folded yet; where it will be recorded is kept until it goes."""

    def __init__(
        self,
        cluster: str,
        scheduler_name: str,
        stream_of: Callable[[str, str], str],
        identity: Callable[[], str | None] = lambda: "",
    ) -> None:
        self._cluster, self._scheduler, self._stream_of, self._identity = cluster, scheduler_name, stream_of, identity
        self._coming: dict[tuple[str, str], str] = {}

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of one change, or None for what concerns nobody."""
        place, kind, obj = change.cluster, change.kind, change.object
        new = observations.event_of(
            change,
            now,
            lambda: self._gone(place, kind, obj) if change.gone else self._seen(place, kind, change.whole()),
            lambda error: refused(place, kind, obj, error),
        )
        kept = (observations.CandidateSeen, observations.CandidateObservationRefused)
        at_home = place == MANAGEMENT  # where the stream of an end is that of its name
        if new is not None and isinstance(new.event, kept) and not at_home and not self._stream_of(place, change.uid):
            self._coming[place, change.uid] = new.stream
        return new

    def _seen(self, place: str, kind: Kind, obj: Json) -> observations.Built | None:
        if place == MANAGEMENT and kind == PODS:
            return source_pod(obj) if section(obj, "spec").get("schedulerName") == self._scheduler else None
        if place != MANAGEMENT and kind == CANDIDATES and not self._is_of_another(place, obj):
            origin = objects.origin(obj)
            # Ours have the namespace of their pod. One that says otherwise was made by nobody of us.
            ours = origin.cluster == self._cluster and origin.namespace == meta(obj).get("namespace")
            return self._marked(candidate(obj), obj) if ours else None
        return None

    def _is_of_another(self, place: str, obj: Json) -> bool:
        """Whether a Candidate with our name says that another cluster made it. One that is known is ours: a source
        cluster that was built anew goes on with its log."""
        said, identity = section(meta(obj), "annotations", "metadata").get(objects.SOURCE_UID), self._identity()
        differs = bool(said and identity) and said != identity
        return differs and not self._stream_of(place, str(meta(obj).get("uid", "")))

    def _marked(self, built: observations.Built, obj: Json) -> observations.Built:
        """Return an observation of a Candidate, which notes of one that it does not say that our cluster made it. In a
        log that is new none does as long as it is not known which one that is."""
        identity = self._identity()
        if identity == "" or identity == section(meta(obj), "annotations", "metadata").get(objects.SOURCE_UID):
            return built
        stream, event, bodies = built
        return stream, replace(event, unmarked=True), bodies

    def _gone(self, place: str, kind: Kind, obj: Json) -> observations.Built | None:
        metadata = meta(obj)
        uid = str(metadata.get("uid", ""))
        namespace, name = str(metadata.get("namespace", "")), str(metadata["name"])
        if place == MANAGEMENT and kind == PODS:
            return (
                source_stream(namespace, name),
                observations.SourceDeleted(namespace=namespace, name=name, uid=uid),
                (),
            )
        if place == MANAGEMENT or kind != CANDIDATES:
            return None
        coming = self._coming.pop((place, uid), "")
        stream = self._stream_of(place, uid) or coming
        return (stream, observations.CandidateGone(namespace=namespace, name=name, uid=uid), ()) if stream else None


def source_pod(obj: Json) -> observations.Built:
    """Return the event of a source pod; `Misfit` if it does not fit."""
    metadata, spec, status = meta(obj), section(obj, "spec"), section(obj, "status")
    annotations = section(metadata, "annotations", "metadata")
    template = objects.template(obj)
    owner = next((o for o in fields.items(metadata, "ownerReferences", "metadata") if o.get("controller")), {})
    reason, message, options = _asked(obj, annotations)
    if not reason and (large := objects.oversize(template)):
        reason, message = CandidateReason.POD_TOO_LARGE, large
    init, others = (
        [str(one.get("name")) for one in fields.items(spec, field, "spec")]
        for field in ("initContainers", "containers")
    )
    event = observations.SourcePodObserved(
        **fields.identity(obj),
        template=template.ref,
        phase=text(status, "phase", "status") or "Pending",
        restart_policy=text(spec, "restartPolicy", "spec") or "Always",
        containers=[*init, *others],
        init=init,
        ended=ended(spec, status),
        workload=text(owner, "uid", "metadata.ownerReferences[]"),
        gated=bool(fields.items(spec, "schedulingGates", "spec")),
        options=options,
        problem=reason,
        problem_message=message,
        conditions=[
            Condition(
                type=text(entry, "type", "status.conditions[]"),
                status=text(entry, "status", "status.conditions[]"),
                reason=text(entry, "reason", "status.conditions[]"),
                message=text(entry, "message", "status.conditions[]"),
                last_transition_time=text(entry, "lastTransitionTime", "status.conditions[]"),
            )
            for entry in fields.items(status, "conditions", "status")
        ],
        references=decide.references(spec),
        group=group_of(annotations),
        priority=fields.number(spec, "priority", "spec"),
        hints={key: str(value) for key, value in annotations.items() if key in objects.HINTS},
        restarts=restarts_of(status),
        needs=[] if reason else _needs(spec, annotations),
        gates=readiness.gates_of(spec),
        **_on_virtual_node(metadata, spec, status),
    )
    return source_stream(event.namespace, event.name), event, (template,)


def _on_virtual_node(metadata: Json, spec: Json, status: Json) -> dict[str, Any]:
    """Return what a pod says of the virtual Node that it is bound to, or about to be; nothing of any other pod."""
    found: dict[str, Any] = {}
    if objects.HINT_TOLERATIONS in section(metadata, "annotations", "metadata"):
        found["tolerates"] = True
    node = text(spec, "nodeName", "spec")
    if objects.is_virtual(node):
        waits = bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") != 0
        found |= {"node": node, "stopping": waits, "unready": _made_unready(status)}
    return found


def _made_unready(status: Json) -> bool:
    """Whether a node controller says that the pod is not ready, and no kubelet: its containers are, and no reason is
    given (kubernetes 1.36, pkg/controller/util/node, MarkPodsNotReady)."""
    said = {entry.get("type"): entry for entry in fields.items(status, "conditions", "status")}
    ready, containers = said.get("Ready", {}), said.get("ContainersReady", {})
    return ready.get("status") == "False" and not ready.get("reason") and containers.get("status") == "True"


def _needs(spec: Json, annotations: Json) -> list[NamedObject]:
    found = needs.needed(spec, services_of(annotations))
    return [convert({"kind": kind, "name": name}, NamedObject) for kind, name in found]


def services_of(annotations: Json) -> list[str]:
    """Return the Services that a pod asks for; `ValueError` names one that is none."""
    named = [name.strip() for name in str(annotations.get(objects.OPT_SERVICES, "")).split(",") if name.strip()]
    for name in named:
        if not _DNS_LABEL.fullmatch(name):
            raise ValueError(f'annotation {objects.OPT_SERVICES}: "{name}": use names of Services, separated by commas')
    return named


BOUND_HERE = "spec.nodeName is set: the pod is bound here already; leave it empty to have it placed in another cluster"


def _asked(obj: Json, annotations: Json) -> tuple[str, str, observations.PlacementOptions]:
    """Return what the pod's annotations ask for, and what is wrong with it or with its constraints."""
    spec = section(obj, "spec")
    node = text(spec, "nodeName", "spec")
    if node and not objects.is_virtual(node):
        return CandidateReason.BOUND_ELSEWHERE, BOUND_HERE, observations.PlacementOptions()
    labels = section(meta(obj), "labels", "metadata").keys() - {objects.ELECT_LABEL}
    marks = {*labels, *annotations} - {*objects.OPTIONS, *objects.HINTS, objects.HINT_TOLERATIONS}
    forged = sorted(key for key in marks if objects.ours(key))
    if forged:
        allowed = ", ".join(objects.OPTIONS)
        return (
            CandidateReason.FORGED_ANNOTATION,
            f"{forged[0]} is not for users to set: remove it (allowed: {allowed})",
            observations.PlacementOptions(),
        )
    wrong = constraints.problem(spec)
    if wrong:
        return CandidateReason.INVALID_CONSTRAINT, wrong, observations.PlacementOptions()
    try:
        services_of(annotations)
        asked = options(annotations)
    except ValueError as error:
        return CandidateReason.INVALID_OPTION, str(error), observations.PlacementOptions()
    if asked.max_skew and group_of(annotations):
        message = (
            f"annotation {objects.OPT_MAX_SKEW}: a pod of PodGroup {group_of(annotations)} cannot be spread over"
            f" clusters: its group goes to one as a whole; remove this annotation, or {GROUP_NAME}"
        )
        return CandidateReason.GANG_NEVER_SPREADS, message, observations.PlacementOptions()
    return "", "", asked


def group_of(annotations: Json) -> str:
    """Return the PodGroup that a pod names, "" if it names none; empty text counts as absent, as in Volcano
    (volcano-sh/volcano pkg/controllers/podgroup/pg_controller_handler.go, ed72c7c81).
    """
    return str(annotations.get(GROUP_NAME) or "")


def options(annotations: Json) -> observations.PlacementOptions:
    """Return what a source pod's annotations ask for; `ValueError` names the annotation, what it says and what it may
    say.
    """
    placement = str(annotations.get(objects.OPT_PLACEMENT, ""))
    if placement and placement not in MODES:
        raise ValueError(f'annotation {objects.OPT_PLACEMENT}: "{placement}": use {" or ".join(MODES)}')
    least = _bounded(annotations, objects.OPT_MIN_CANDIDATES, 1, MOST_CANDIDATES)
    skew = _bounded(annotations, objects.OPT_MAX_SKEW, 0, LARGEST_SKEW)
    wait = _bounded(annotations, objects.OPT_MAX_WAIT, 0, LONGEST_WAIT.total_seconds())
    named = [name.strip() for name in str(annotations.get(objects.OPT_TARGETS, "")).split(",") if name.strip()]
    return observations.PlacementOptions(
        targets=named,
        placement=placement,
        min_candidates=None if least is None else int(least),
        max_skew=None if skew is None else int(skew),
        max_wait_seconds=wait,
    )


def _bounded(annotations: Json, key: str, low: float, high: float) -> float | None:
    raw = annotations.get(key)
    if raw is None:
        return None
    whole = key != objects.OPT_MAX_WAIT
    try:
        value = float(int(raw)) if whole else float(str(raw).removesuffix("s"))
    except (TypeError, ValueError):
        value = math.nan
    if not low <= value <= high:
        what = "a whole number" if whole else "a number of seconds"
        raise ValueError(f'annotation {key}: "{raw}": use {what} from {low:g} to {high:g}')
    return value


def candidate(obj: Json) -> observations.Built:
    """Return the event of one of our candidates, by what its target says; `Misfit` if it does not fit."""
    spec, status = section(obj, "spec"), section(obj, "status")
    origin, permit = objects.origin(obj), objects.permission(obj)
    reservation = section(status, "reservation", "status")
    common = {
        **fields.identity(obj),
        "origin": origin,
        "permit": permit.number if permit is not None else 0,
        "withdrawn": objects.counter(spec, "withdrawn", "spec"),
        "reservation": fields.number(reservation, "number", "status.reservation"),
        "acknowledged": fields.number(status, "acknowledged", "status"),
        "tried": fields.number(status, "tried", "status"),
        "why": text(status, "reason", "status"),
        "message": text(status, "message", "status"),
        "scale_up": fields.flag(spec, "scaleUp", "spec") if spec.get("scaleUp") is not None else None,
        "gates": conditions_of(spec, "spec") if spec.get("conditions") is not None else None,
        "follows": [kind for kind in fields.strings(status, "follows", "status") if kind in objects.ALLOWED],
    }
    sent = objects.sent(obj)
    event, bodies = _by_phase(status, reservation, {**common, "template": sent.ref})
    return source_stream(origin.namespace, origin.name), event, (sent, *bodies)


def _by_phase(status: Json, reservation: Json, common: Json) -> tuple[observations.CandidateSeen, tuple[Body, ...]]:
    node = text(reservation, "node", "status.reservation")
    phase = text(status, "phase", "status")
    match phase:
        case "Refused":
            return observations.CandidateRefused(**common), ()
        case "Unschedulable":
            return observations.CandidateUnschedulable(
                **common, preemptable=fields.flag(status, "preemptable", "status")
            ), ()
        case "Reserved":
            expires = objects.instant(reservation, "expires", "status.reservation")
            score = fields.number(reservation, "score", "status.reservation")
            return observations.CandidateReserved(**common, node=node, score=score, expires=expires), ()
        case "Unreserved":
            return observations.CandidateUnreserved(**common), ()
        case "Bound" | "Missing":
            return _bound(phase, status, node, common)
        case "" | "Pending":
            return observations.CandidateWaiting(**common), ()
        case _:
            raise Misfit("status.phase", phase, "a phase that this version knows")


def _bound(phase: str, status: Json, node: str, common: Json) -> tuple[observations.CandidateSeen, tuple[Body, ...]]:
    bound = {
        **common,
        "node": node,
        "pod": text(section(status, "pod", "status"), "name", "status.pod"),
        "bound_by": fields.number(status, "boundBy", "status"),
        "gates_applied": readiness.are_applied(status),
    }
    if phase == "Missing":
        return observations.DelegateMissing(**bound), ()
    sequence = fields.number(status, "sequence", "status")
    if not sequence:
        return observations.CandidateBound(**bound), ()
    said = section(status, "podStatus", "status")
    body = body_of(said)
    event = observations.DelegateStatus(
        **bound,
        sequence=sequence,
        pod_status=body.ref,
        pod_phase=text(said, "phase", "status.podStatus"),
        restarts=restarts_of(said),
        rejected=rejection(said),
    )
    return event, (body,)


def _pod_of(candidate: Json) -> str:
    """Return the name of a Candidate's source pod, "" if it cannot be read."""
    try:
        return text(section(section(candidate, "spec"), "source", "spec"), "name", "spec.source")
    except Misfit:
        return ""


def refused(place: str, kind: Kind, obj: Json, error: Exception) -> observations.Built:
    """Return the event of an object that does not fit its API."""
    body = body_of(obj)
    of = _pod_of(obj) if kind == CANDIDATES else ""
    event = observations.CandidateObservationRefused(**fields.refusal(kind, obj, error), object=body.ref, pod=of)
    return f"refused/{place}/{kind.name}/{event.namespace}/{event.name}", event, (body,)
