"""What would be done about pods that are written down: the pure half of `controlplane podgroups resolve`.

In: objects with their places, the rules, and which kinds are to be taken for forbidden or out of reach. Out: a line for
each pod, a problem for each object that cannot be used. What the objects do not contain does not exist; otherwise
everything is decided by the very code of the service."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from controlplane.controllers.podgroups.documents import DocumentProblem, Piece, head
from controlplane.controllers.podgroups.membership import (
    POD_GROUP,
    Amounts,
    Template,
    foreign_owner,
    group_queue,
    min_resources,
    newest_template,
)
from controlplane.controllers.podgroups.objects import (
    OwnerFacts,
    OwnerMisfit,
    OwnerReference,
    PodFacts,
    group_of,
    identity,
    owner_facts,
    pod_facts,
)
from controlplane.controllers.podgroups.ownership import (
    OUR_SCHEDULERS,
    Outcome,
    OwnerAnswer,
    Read,
    Resolution,
    Retry,
    Skip,
    Warned,
    resolve,
)
from controlplane.controllers.podgroups.reasons import Oddity, PodGroupReason
from controlplane.controllers.podgroups.rules import Rules
from controlplane.kube.kinds import Json, meta

# Kinds of Kubernetes' own that have no namespace: an object of another kind without one may be either.
_CLUSTER_SCOPED = frozenset(
    {("", "Node"), ("", "Namespace"), ("", "PersistentVolume"), ("apiextensions.k8s.io", "CustomResourceDefinition")}
)
_OUR_GROUPS = frozenset({"", "apps", "batch"})
_SELECTOR = re.compile(r"(?P<kind>[^./]+)(\.(?P<group>[^/]+))?(/(?P<name>[^/]+))?")
DEFAULT_NAMESPACE = "default"


class ObjectSelector(msgspec.Struct, frozen=True):
    """Objects by kind: `KIND`, `KIND.GROUP`, and one of them with `/NAME`. Kinds in any case; the plural that RBAC uses
    fits too.
    """

    kind: str
    group: str
    name: str = ""

    def fits(self, reference: OwnerReference) -> bool:
        """Whether a reference names one of these objects."""
        kind = reference.kind.lower()
        plurals = {kind, kind + "s", kind + "es", kind[:-1] + "ies"}
        return self.kind in plurals and self.group == reference.group and self.name in ("", reference.name)


def selector(text: str) -> ObjectSelector:
    """Read a selector; ValueError if it is none."""
    found = _SELECTOR.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" names no kind: write KIND.GROUP, such as Deployment.apps, or KIND.GROUP/NAME')
    return ObjectSelector(found["kind"].lower(), found["group"] or "", found["name"] or "")


class Pretended(msgspec.Struct, frozen=True):
    """How the API server is pretended to answer about some kinds."""

    forbidden: tuple[ObjectSelector, ...] = ()
    not_served: tuple[ObjectSelector, ...] = ()
    unavailable: tuple[ObjectSelector, ...] = ()

    def outcome(self, owner: OwnerReference) -> Outcome | None:
        """Return the answer that an owner's read is to get, None for an honest one."""
        answers: tuple[tuple[Outcome, tuple[ObjectSelector, ...]], ...] = (
            ("Unavailable", self.unavailable),
            ("Forbidden", self.forbidden),
            ("NotServed", self.not_served),
        )
        return next((outcome for outcome, kinds in answers if any(kind.fits(owner) for kind in kinds)), None)


class _World:
    """The objects that there are."""

    def __init__(self, pretended: Pretended) -> None:
        self.pretended = pretended
        self.owners: dict[tuple[str, str, str, str], OwnerFacts] = {}
        self.places: dict[tuple[str, str, str, str], tuple[str, Json]] = {}
        self.pods: list[tuple[PodFacts, Amounts]] = []
        self.groups: dict[tuple[str, str], Json] = {}
        self.templates: list[Template] = []
        self.problems: list[DocumentProblem] = []
        self.unfit: dict[tuple[str, str, str, str], DocumentProblem | None] = {}

    def add(self, piece: Piece) -> None:
        """Take an object, or say why it cannot be used."""
        try:
            self._add(piece)
        except OwnerMisfit as error:
            self._complain(piece, error)
        except RecursionError:
            self.problems.append(DocumentProblem(piece.title, "contains itself; write it out"))

    def _complain(self, piece: Piece, error: OwnerMisfit) -> None:
        """Keep a complaint; an object without a UID that is no pod is complained of only if it turns out to be
        somebody's owner.
        """
        problem = DocumentProblem(piece.title, str(error))
        key = self._key(piece.object)
        if error.field == "metadata.uid" and key is not None and key[:2] != ("", "Pod"):
            self.unfit.setdefault(key, problem)
            return
        self.problems.append(problem)
        if key is not None and key not in self.owners:
            self.unfit[key] = None

    def _key(self, obj: Json) -> tuple[str, str, str, str] | None:
        api_version, kind, metadata = obj.get("apiVersion"), obj.get("kind"), meta(obj)
        name, namespace = metadata.get("name"), metadata.get("namespace") or ""
        if not all(isinstance(part, str) for part in (api_version, kind, name, namespace)):
            return None
        group = group_of(str(api_version))
        return group, str(kind), str(namespace) or self._default_namespace(group, str(kind)), str(name)

    def _add(self, piece: Piece) -> None:
        obj = piece.object
        api_version, kind = head(obj)
        group = group_of(api_version)
        if (group, kind) == POD_GROUP and (key := self._key(obj)) is not None:
            self.groups[key[2:]] = obj  # by its name alone: whose it is does not take its own UID
        namespace, name, _ = identity(obj)
        namespace = namespace or self._default_namespace(group, kind)
        key = group, kind, namespace, name
        if key in self.places:
            where, before = self.places[key]
            if before == obj:
                return
            raise OwnerMisfit("metadata.name", f"is that of another object, at {where}", "give every object once")
        facts = owner_facts(obj)
        if (group, kind) == ("", "Pod"):
            pod = msgspec.structs.replace(pod_facts(obj), namespace=namespace)
            self.pods.append((pod, Template.requests_of(obj)))
        self.places[key] = piece.place, obj
        self.owners[key] = facts
        template = Template.of(obj, group, kind, namespace)
        if template is not None:
            self.templates.append(template)

    @staticmethod
    def _default_namespace(group: str, kind: str) -> str:
        known = group in _OUR_GROUPS and (group, kind) not in _CLUSTER_SCOPED
        return DEFAULT_NAMESPACE if known or (group, kind) == POD_GROUP else ""

    def known(self, namespace: str, owner: OwnerReference) -> OwnerAnswer:
        """Answer a read as an API server with these objects would."""
        pretended = self.pretended.outcome(owner)
        if pretended is not None:
            return OwnerAnswer(outcome=pretended)
        for place in (namespace, ""):
            facts = self.owners.get((owner.group, owner.kind, place, owner.name))
            if facts is not None:
                return OwnerAnswer(outcome="Found", facts=facts)
            if (key := (owner.group, owner.kind, place, owner.name)) in self.unfit:
                problem = self.unfit[key]
                if problem is not None:
                    self.problems.append(problem)
                    self.unfit[key] = None
                return OwnerAnswer(outcome="Misfit")
        return OwnerAnswer(outcome="NotFound")


def dry_run(
    pieces: Iterable[Piece],
    rules: Rules,
    *,
    schedulers: Sequence[str] = OUR_SCHEDULERS,
    pretended: Pretended | None = None,
) -> tuple[list[dict[str, Any]], list[DocumentProblem]]:
    """Return what would be done about each pod, in the order of the objects, and what could not be used."""
    world = _World(pretended or Pretended())
    for piece in pieces:
        world.add(piece)
    lines = [_line(world, pod, requests, rules, tuple(schedulers)) for pod, requests in world.pods]
    return lines, world.problems


def _line(world: _World, pod: PodFacts, asked: Amounts, rules: Rules, schedulers: tuple[str, ...]) -> dict[str, Any]:
    step = resolve(pod, rules, world.known, schedulers)
    line: dict[str, Any] = {
        "pod": pod.name,
        "action": "skip",
        "reason": "",
        "podGroupName": None,
        "namespace": pod.namespace,
        "owner": None,
        "matched": False,
        "matchedOwner": None,
        "level": None,
        "minMember": None,
        "minResources": None,
        "queue": None,
        "walked": [],
        "reads": [],
        "annotationReads": [],
        "warnings": [],
    }
    match step:
        case Skip():
            return line | {"reason": step.reason, "podGroupName": step.group_name or None}
        case Retry():
            return line | {"action": "retry", "reason": step.reason, "warnings": [step.message], **_trail(step)}
        case Resolution():
            return line | _create(world, pod, asked, step)
        case Read():
            raise AssertionError("every read of a dry run has an answer")


def _create(world: _World, pod: PodFacts, asked: Amounts, found: Resolution) -> dict[str, Any]:
    queue, queue_warning = group_queue(pod)
    warnings = [*found.warnings, *queue_warning]
    action, reason = "create", found.reason
    taken = world.groups.get((pod.namespace, found.group_name))
    if taken is not None and (other := _other_owner(taken, found.owner)) is not None:
        action, reason = "retry", PodGroupReason.GROUP_NAME_TAKEN
        warnings.append(
            Warned(oddity=Oddity.GROUP_NAME_TAKEN, message=f"PodGroup {found.group_name} belongs to {other}")
        )
    if taken is None and found.owner_is_gone:
        action, reason = "retry", PodGroupReason.OWNER_GONE
        warnings.append(_gone(found))
    requests = newest_template(world.templates, pod.namespace, found) or asked
    return {
        "action": action,
        "reason": reason,
        "podGroupName": found.group_name,
        "owner": _reference(found.owner),
        "matched": found.matched is not None,
        "matchedOwner": _reference(found.chain[found.matched]) if found.matched is not None else None,
        "level": found.rule.adjust_level if found.rule is not None else None,
        "minMember": found.min_member,
        "minResources": min_resources(requests, found.min_member),
        "queue": queue or None,
        "warnings": [str(warning) for warning in warnings],
        **_trail(found),
    }


def _gone(found: Resolution) -> Warned:
    """Return that a group is not made, as in `decide.decide_group`: the garbage collector would take it as soon as it
    is there."""
    replaced = any(one.owner == found.owner and one.outcome == "Replaced" for one in found.looked)
    said = (
        f"{found.owner} is not there: no PodGroup is made, since it would be collected; if it exists, give it with "
        "the others"
    )
    return Warned(oddity=Oddity.OWNER_REPLACED if replaced else Oddity.OWNER_NOT_FOUND, message=said)


def _other_owner(group: Json, owner: OwnerReference) -> str | None:
    """Return whose an existing group is if it is not that of an owner; one that does not say it properly is nobody's we
    know.
    """
    try:
        return foreign_owner(group, owner)
    except OwnerMisfit as error:
        return f"nobody that can be told: {error}"


def _trail(step: Resolution | Retry) -> dict[str, Any]:
    """Return the owners that were compared, and those that had to be read, for the walk or for their annotation
    alone.
    """
    looks: dict[str, list[dict[str, str]]] = {"walk": [], "annotations": []}
    for look in step.looked:
        looks[look.purpose].append(_reference(look.owner) | {"outcome": look.outcome})
    return {
        "walked": [_reference(owner) for owner in step.chain[1:]],
        "reads": looks["walk"],
        "annotationReads": looks["annotations"],
    }


def _reference(owner: OwnerReference) -> dict[str, str]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
