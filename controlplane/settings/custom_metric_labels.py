"""Reads which labels and annotations of objects Kueue's metrics have, as Kueue's configuration has it
(`metrics.customLabels`, kubernetes-sigs/kueue apis/config/v1beta2/configuration_types.go, pkg/config/validation.go,
ff69552e).

In: a list out of a settings file, or JSON out of a variable. Out: values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COHORT, LOCAL_QUEUE, CLUSTER_QUEUE, WORKLOAD = SOURCE_KINDS = ("Cohort", "LocalQueue", "ClusterQueue", "Workload")
MOST_LABELS = 20
MOST_OF_KIND = {COHORT: 6, LOCAL_QUEUE: 6, CLUSTER_QUEUE: 6, WORKLOAD: 2}
MOST_VALUES, MOST_VALUES_OF_WORKLOADS = 16, 12
_NAME = r"[a-zA-Z][a-zA-Z0-9_]*"
_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/"
_KEY = re.compile(rf"({_PREFIX})?{_PART}")
_FIELDS = ("name", "sourceKind", "sourceLabelKey", "sourceAnnotationKey", "trackedValues")


@dataclass(frozen=True, slots=True)
class CustomLabel:
    """The label `custom_<name>` of metrics: the value of an object's label, or of its annotation if `annotation_key` is
    set. `source_kind` is the kind of the object. `tracked_values`: all others are reported as one; empty: every value
    is reported."""

    name: str
    source_kind: str = CLUSTER_QUEUE
    label_key: str = ""
    annotation_key: str = ""
    tracked_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CustomLabelRules:
    """A list of custom labels, of which each has another name."""

    def read(self, raw: object) -> tuple[CustomLabel, ...]:
        """Return the labels in the order given; messages name the field."""
        if isinstance(raw, str):
            try:
                raw = json.loads(raw) if raw.strip() else []
            except ValueError:
                raise ValueError("must be a list of labels, in a variable as JSON") from None
        if not isinstance(raw, list):
            raise ValueError(
                "must be a list of labels, each with name, sourceKind and sourceLabelKey or sourceAnnotationKey"
            )
        if len(raw) > MOST_LABELS:
            raise ValueError(f"has {len(raw)} labels: at most {MOST_LABELS} are allowed")
        found = tuple(_label(one, f"[{n}]") for n, one in enumerate(raw))
        names = [one.name for one in found]
        if double := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f'has two labels of the name "{double}": name each otherwise')
        _check_counts(found)
        return found

    def show(self, value: tuple[CustomLabel, ...]) -> list[dict[str, Any]]:
        """Return the labels as a settings file would hold them."""
        return [_shown(one) for one in value]

    def describe(self) -> str:
        """Say the shape."""
        return (
            "list of labels, each with `name`, `sourceKind`, `sourceLabelKey` or `sourceAnnotationKey`, and "
            "`trackedValues`, in a variable as JSON, or empty"
        )


def _shown(one: CustomLabel) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": one.name, "sourceKind": one.source_kind}
    if one.annotation_key:
        shown["sourceAnnotationKey"] = one.annotation_key
    elif one.label_key != one.name:
        shown["sourceLabelKey"] = one.label_key
    return shown | ({"trackedValues": list(one.tracked_values)} if one.tracked_values else {})


def _label(raw: object, at: str) -> CustomLabel:
    if not isinstance(raw, dict):
        raise ValueError(f"{at} must have name and sourceKind")
    if unknown := sorted(str(key) for key in raw if key not in _FIELDS):
        raise ValueError(f"{at} has no field {unknown[0]}")
    name, kind = raw.get("name"), raw.get("sourceKind") or CLUSTER_QUEUE
    if not isinstance(name, str) or re.fullmatch(_NAME, name) is None:
        raise ValueError(f'{at}.name is "{name}": write letters, digits and "_", and a letter first, such as team')
    if kind not in SOURCE_KINDS:
        raise ValueError(f'{at}.sourceKind must be {", ".join(SOURCE_KINDS[:-1])} or {SOURCE_KINDS[-1]}, not "{kind}"')
    label_key, annotation_key = _keys(raw, at, name)
    return CustomLabel(name, kind, label_key, annotation_key, _values(raw.get("trackedValues") or [], kind, at))


def _keys(raw: dict[str, Any], at: str, name: str) -> tuple[str, str]:
    """Return the key of the label, or "", and that of the annotation."""
    label, annotation = raw.get("sourceLabelKey") or "", raw.get("sourceAnnotationKey") or ""
    if label and annotation:
        raise ValueError(f"{at} has sourceLabelKey and sourceAnnotationKey: leave one of them out")
    if annotation:
        return "", _key(annotation, f"{at}.sourceAnnotationKey", "an annotation")
    return _key(label or name, f"{at}.{'sourceLabelKey' if label else 'name'}", "a label"), ""


def _key(raw: object, at: str, what: str) -> str:
    if not isinstance(raw, str) or _KEY.fullmatch(raw) is None:
        raise ValueError(f'{at} is "{raw}", which is no key of {what}: write one such as example.com/team')
    return raw


def _values(raw: object, kind: str, at: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(one, str) for one in raw):
        raise ValueError(f"{at}.trackedValues must be a list of texts")
    most = MOST_VALUES_OF_WORKLOADS if kind == WORKLOAD else MOST_VALUES
    if len(raw) > most:
        raise ValueError(f"{at}.trackedValues has {len(raw)} values: at most {most} are allowed for sourceKind {kind}")
    if kind == WORKLOAD and not raw:
        raise ValueError(f"{at}.trackedValues is empty: name the 1 to {most} values that are reported of Workloads")
    if double := next((one for one in raw if raw.count(one) > 1), None):
        raise ValueError(f'{at}.trackedValues names "{double}" twice')
    return tuple(raw)


def _check_counts(found: Sequence[CustomLabel]) -> None:
    """Raise ValueError if a kind of objects has too many labels."""
    for kind, most in MOST_OF_KIND.items():
        if (count := sum(one.source_kind == kind for one in found)) > most:
            raise ValueError(f"has {count} labels of sourceKind {kind}: at most {most} are allowed")
