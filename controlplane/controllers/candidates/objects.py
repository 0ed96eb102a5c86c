"""The objects that both sides share: Candidate, CandidateSource and CandidateTarget, their labels and their names.

In: objects as an API server shows them. Out: typed parts, or `Misfit` with the field that is wrong. A Candidate is
in the target cluster; the source writes its spec, the target its status, and both read each of them here."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from controlplane.controllers.candidates import label_keys, tolerations
from controlplane.kube.fields import BadValue, Misfit, items, number, section, text
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICES, Json, Kind, meta
from controlplane.log.event import Body, Part, body_of

GROUP = "candidates.controlplane.dev"
CANDIDATES = Kind(GROUP, "v1alpha1", "Candidate", "candidates")
CANDIDATE_SOURCES = Kind(GROUP, "v1alpha1", "CandidateSource", "candidatesources")
CANDIDATE_TARGETS = Kind(GROUP, "v1alpha1", "CandidateTarget", "candidatetargets")
PODS = Kind("", "v1", "Pod", "pods")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
# What a pod names and what goes with it: some kinds always, others where the target's CandidateSource allows it.
ALWAYS: dict[str, Kind] = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
ALLOWED: dict[str, Kind] = {
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "Service": SERVICES,
    "ServiceAccount": ACCOUNTS,
}
FOLLOWED: dict[str, Kind] = {**ALWAYS, **ALLOWED}
LIVE = "live:"  # begins the refs of bodies that are in no log

SCHEDULER_NAME = "controlplane-candidates"  # what a source pod asks for to be elected
ELECT_LABEL = f"{GROUP}/elect"  # on a Namespace or a Pod of the source: whether the webhook gives it that scheduler
SOURCE_LABEL = f"{GROUP}/source"  # on a Candidate and on followed copies: the source cluster's name
SOURCE_UID = f"{GROUP}/source-uid"  # beside it, an annotation: the UID of the source cluster's namespace kube-system
CANDIDATE_LABEL = f"{GROUP}/candidate"  # on the Pod that a target makes: the Candidate's name
TEMPLATE = f"{GROUP}/template"  # on the Pod that a target makes: the hash of the template that it agrees with
SCALE_UP = f"{GROUP}/scale-up"  # on the Pod that a target makes: "false" if its autoscaler is not to add nodes for it
FINALIZER = f"{GROUP}/pod"  # on a Candidate: its Pod may still be there; the target's scheduler takes it off
# What a user may ask for on a source pod. Everything else below our prefix is written by us alone.
OPT_TARGETS = f"{GROUP}/targets"
OPT_PLACEMENT = f"{GROUP}/placement"
OPT_MIN_CANDIDATES = f"{GROUP}/min-candidates"
OPT_MAX_WAIT = f"{GROUP}/max-wait"
OPT_MAX_SKEW = f"{GROUP}/max-skew"
OPT_SERVICES = f"{GROUP}/services"
OPTIONS = (OPT_TARGETS, OPT_PLACEMENT, OPT_MIN_CANDIDATES, OPT_MAX_WAIT, OPT_MAX_SKEW, OPT_SERVICES)
# Where the delegate is: written by us on the source pod, for whoever looks for logs or a shell.
HINT_CLUSTER, HINT_NAMESPACE, HINT_POD = f"{GROUP}/cluster", f"{GROUP}/namespace", f"{GROUP}/pod"
HINTS = (HINT_CLUSTER, HINT_NAMESPACE, HINT_POD)
# The tolerations that a source pod had before it was bound to a virtual Node: its delegate keeps those.
HINT_TOLERATIONS = f"{GROUP}/tolerations"
TARGET_LABEL = f"{GROUP}/target"  # on a virtual Node: the target that it stands for, short if its name is too long
TARGET_NAME = f"{GROUP}/target-name"  # an annotation beside it: the name as it is, if the label has it short
TAINT = f"{GROUP}/virtual-node"  # on a virtual Node, so that no scheduler of its cluster puts a pod there
_VIRTUAL, _LONGEST = "candidates-", 63
_YEARS = range(1970, 9000)  # of times that others write: what is added to one still is one
_HIGHEST = 1 << 62  # of numbers that others write: an API server takes the next ones, too
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Of a template, in JSON. etcd takes 1.5 MiB as a whole, and what the target says of the pod has to fit beside it.
MOST_BYTES = (1536 - 64) * 1024
_UNSAFE = re.compile(r"[^a-z0-9-]+")


def live_ref(kind: str, namespace: str, name: str) -> str:
    """Return the ref of a source's object among bodies."""
    return f"{LIVE}{kind}/{namespace}/{name}"


class Origin(Part):
    """`spec.source`: the source pod that this candidate is for. `uid` is the source pod's, `epoch` the attempt."""

    cluster: str
    namespace: str
    name: str
    uid: str
    epoch: int


class PermitSpec(Part):
    """`spec.permit`: what the source allows.

    `number` grows with each permit of the source pod; `reservation` is the one it is for (a `Bind` for any other is
    void); `until` is the end of the lease by the source's clock; a `Preempt` allows one attempt to make room and no
    binding."""

    number: int
    kind: str
    reservation: int
    until: datetime


def instant(obj: Json, field: str, where: str) -> datetime | None:
    """Return a time in UTC, None where it is absent; `Misfit` if it is none, has no zone or is out of all bounds."""
    found = text(obj, field, where)
    if not found:
        return None
    try:
        at = datetime.fromisoformat(found)
    except ValueError:
        raise Misfit(f"{where}.{field}", found, "an RFC 3339 time") from None
    if at.tzinfo is None:
        raise Misfit(f"{where}.{field}", found, "a time with its zone")
    if at.year not in _YEARS:
        raise BadValue(f"{where}.{field}", f"a time of a year from {_YEARS[0]} to {_YEARS[-1]} is expected")
    return at.astimezone(UTC)


def counter(obj: Json, field: str, where: str) -> int:
    """Return a number after which others follow, 0 where it is absent; `Misfit` if there is none after it."""
    found = number(obj, field, where)
    if not 0 <= found <= _HIGHEST:
        raise BadValue(f"{where}.{field}", f"a number from 0 to {_HIGHEST} is expected")
    return found


def stamp(at: datetime) -> str:
    """Return a time as it is written into a Candidate: leases are compared, so with microseconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def origin(obj: Json) -> Origin:
    """Return the source pod that a Candidate is for."""
    source = section(section(obj, "spec"), "source", "spec")
    return Origin(
        cluster=text(source, "cluster", "spec.source"),
        namespace=text(source, "namespace", "spec.source"),
        name=text(source, "name", "spec.source"),
        uid=text(source, "uid", "spec.source"),
        epoch=counter(source, "epoch", "spec.source"),
    )


def permission(obj: Json) -> PermitSpec | None:
    """Return the permit in a Candidate's spec, None if it has none."""
    permit = section(section(obj, "spec"), "permit", "spec")
    if not permit:
        return None
    until = instant(permit, "until", "spec.permit")
    if until is None:
        raise Misfit("spec.permit.until", None, "an RFC 3339 time")
    return PermitSpec(
        number=counter(permit, "number", "spec.permit"),
        kind=text(permit, "kind", "spec.permit"),
        reservation=number(permit, "reservation", "spec.permit"),
        until=until,
    )


def candidate_name(pod: str, cluster: str, uid: str, epoch: int, target: str) -> str:
    """Return the name of a candidate: the pod's, to be recognised, and a hash, so that it is the same whenever it is
    made again.

    At most 63 characters, since the Pod gets it too and a hostname is made of that.
    """
    digest = hashlib.sha256("\0".join((cluster, uid, str(epoch), target)).encode()).hexdigest()[:16]
    return f"{stem_of(pod)}-{digest}"


def stem_of(pod: str) -> str:
    """Return how the names of a pod's candidates begin, before the hash."""
    return _UNSAFE.sub("-", pod.lower())[:46].strip("-") or "pod"


def virtual_node(target: str) -> str:
    """Return the name of the Node that stands for a target: a label's value, so at most 63 characters."""
    return _short(_VIRTUAL + target, target)


def target_label(target: str) -> str:
    """Return what a label has of the name of a target, and a taint: the name, or how it begins and a hash."""
    return _short(target, target)


def target_of(node: Json) -> str:
    """Return the target that a Node says to stand for, "" if it says none."""
    labels, notes = (meta(node).get(field) for field in ("labels", "annotations"))
    short = labels.get(TARGET_LABEL) if isinstance(labels, dict) else None
    named = notes.get(TARGET_NAME) if isinstance(notes, dict) else None
    target = str(named or short or "")
    return target if short == target_label(target) else ""


def _short(name: str, of: str) -> str:
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(of.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST - 17].rstrip('-.')}-{digest}"


def is_virtual(node: str) -> bool:
    """Whether a Node's name is that of one which stands for a target."""
    return node.startswith(_VIRTUAL)


def template(pod: Json) -> Body:
    """Return what a candidate is made of: a source pod's labels, annotations and spec, without what belongs to the
    source alone.

    The mounted token of the source's ServiceAccount means nothing elsewhere, the target resolves the PriorityClass
    anew, and whatever carries our prefix would be forged on the other side."""
    metadata, spec = meta(pod), label_keys.as_written(section(pod, "spec"))
    tokens = {str(v.get("name")) for v in items(spec, "volumes", "spec") if _is_token(v)}
    for field in ("nodeName", "priority", "schedulerName", "schedulingGates", "serviceAccount", "ephemeralContainers"):
        spec.pop(field, None)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_without_mounts(c, tokens) for c in items(spec, field, "spec")]
    if tokens:
        spec["volumes"] = [v for v in items(spec, "volumes", "spec") if str(v.get("name")) not in tokens]
    marks = section(metadata, "annotations", "metadata")
    if HINT_TOLERATIONS in marks:
        own = tolerations.restored(items(spec, "tolerations", "spec"), str(marks[HINT_TOLERATIONS]))
        spec = {key: value for key, value in spec.items() if key != "tolerations"} | (
            {"tolerations": own} if own else {}
        )
    return body_of(
        {
            "labels": _foreign(section(metadata, "labels", "metadata")),
            "annotations": _foreign(marks),
            "spec": spec,
        }
    )


def oversize(template: Body) -> str:
    """Return why a Candidate cannot be made of a template, "" if its size allows it."""
    size = len(template.text.encode())
    if size <= MOST_BYTES:
        return ""
    return (
        f"the pod has {size} bytes of labels, annotations and spec, more than fits into a Candidate ({MOST_BYTES} bytes): "
        "move what is large into ConfigMaps, Secrets or the image"
    )


def sent(candidate: Json) -> Body:
    """Return what a Candidate is to be made of, in the form of `template`."""
    whole = section(section(candidate, "spec"), "template", "spec")
    head = section(whole, "metadata", "spec.template")
    return body_of(
        {
            "labels": section(head, "labels", "spec.template.metadata"),
            "annotations": section(head, "annotations", "spec.template.metadata"),
            "spec": section(whole, "spec", "spec.template"),
        }
    )


def _foreign(marks: Json) -> Json:
    return {key: value for key, value in marks.items() if not ours(key) and key != _APPLIED}


def ours(key: str) -> bool:
    """Whether a label or annotation is below our prefix."""
    return key.startswith(f"{GROUP}/")


def _is_token(volume: Json) -> bool:
    """Whether a volume is the token that admission mounts by itself (`kube-api-access-…`)."""
    return str(volume.get("name", "")).startswith("kube-api-access-") and "projected" in volume


def _without_mounts(container: Json, volumes: set[str]) -> Json:
    mounts = container.get("volumeMounts")
    if not mounts or not volumes:
        return container
    return {**container, "volumeMounts": [m for m in mounts if m.get("name") not in volumes]}
