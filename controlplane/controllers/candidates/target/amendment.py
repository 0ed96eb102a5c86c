"""What of a candidate's Pod can follow a change of its template.

In: what the Pod was made of, the template that the Candidate has now, the Pod as it was seen. Out: the patch.
Kubernetes lets labels and annotations be changed, images too, tolerations be added, `activeDeadlineSeconds` be set or
lowered (kubernetes, pkg/apis/core/validation/validation.go, ValidatePodUpdate). What else an API server refuses is its
own word."""

from __future__ import annotations

import hashlib
from typing import Any

from controlplane.controllers.candidates.objects import TEMPLATE
from controlplane.controllers.candidates.target.events import CandidateObserved, CandidatePodObserved, Changeable
from controlplane.kube.fields import items, number, section
from controlplane.kube.kinds import Json
from controlplane.values import Value

CONTAINERS = ("initContainers", "containers")
DEADLINES = ("activeDeadlineSeconds", "terminationGracePeriodSeconds")
_MARKS = ("labels", "annotations")
CHANGEABLE = frozenset({*CONTAINERS, *DEADLINES, "tolerations", "ephemeralContainers"})


class Made(Value):
    """What a Pod was made of, by `template`, and the hash of what of it stays as it is. `known`: what it may agree with
    by now, by template: whether a change was carried out, its own annotation says.
    """

    template: str
    known: dict[str, Changeable] = {}
    fixed: str = ""


def made_of(seen: CandidateObserved | None, template: str) -> Made:
    """Return what a Pod is made of that is made of a template now."""
    if seen is None or seen.template != template or seen.changeable is None:
        return Made(template=template)
    return Made(template=template, known={template: seen.changeable}, fixed=seen.fixed)


def amended(made: Made, seen: CandidateObserved | None, pod: CandidatePodObserved | None) -> Made:
    """Return the same after a change was decided on; what the Pod cannot agree with any more is forgotten."""
    if seen is None or seen.changeable is None:
        return made
    agrees = (pod.template if pod is not None else "") or made.template
    known = {template: one for template, one in made.known.items() if template == agrees}
    return Made(template=made.template, known={**known, seen.template: seen.changeable}, fixed=made.fixed)


def changeable_of(head: Json, spec: Json) -> Changeable:
    """Return what of a template a Pod can follow a change of."""
    return Changeable(
        marks={
            f"{field}/{key}": hashlib.sha256(str(value).encode()).hexdigest()[:16]
            for field in _MARKS
            for key, value in section(head, field, "spec.template.metadata").items()
        },
        images={
            f"{field}/{one.get('name')}": str(one.get("image") or "")
            for field in CONTAINERS
            for one in items(spec, field, "spec.template.spec")
        },
        deadlines={
            field: number(spec, field, "spec.template.spec") for field in DEADLINES if spec.get(field) is not None
        },
        tolerations=items(spec, "tolerations", "spec.template.spec"),
    )


def patch(template: Json, pod: CandidatePodObserved, ref: str, before: Changeable | None, after: Changeable) -> Json:
    """Return the strategic merge patch that brings a Pod in line with a template: containers are told by their names.

    Only what has changed since the template that the Pod agrees with: what the target's own admission has made of the
    rest stays. Where that template was not noted (`before` is None), images and deadlines are left as they are."""
    known = before or Changeable(images=after.images, deadlines=after.deadlines)
    head = template.get("metadata") or {}
    metadata: Json = {
        field: {
            key: value
            for key, value in (head.get(field) or {}).items()
            if known.marks.get(f"{field}/{key}") != after.marks.get(f"{field}/{key}")
        }
        for field in _MARKS
    }
    for mark in known.marks.keys() - after.marks.keys():
        field, _, name = mark.partition("/")
        metadata[field][name] = None
    metadata["annotations"][TEMPLATE] = ref
    spec: Json = {name: value for name, value in after.deadlines.items() if known.deadlines.get(name) != value}
    for place, image in after.images.items():
        field, _, name = place.partition("/")
        if known.images.get(place) != image:
            spec.setdefault(field, []).append({"name": name, "image": image})
    more = [one for one in after.tolerations if not _is_in(one, [*known.tolerations, *pod.tolerations])]
    if more:
        spec["tolerations"] = [*pod.tolerations, *more]
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def _is_in(toleration: Json, listed: list[dict[str, Any]]) -> bool:
    said = _plain(toleration)
    return any(_plain(one) == said for one in listed)


def _plain(toleration: Json) -> Json:
    """Return a toleration without what says nothing."""
    found = {field: value for field, value in toleration.items() if value not in (None, "")}
    return {"operator": "Equal", **found}
