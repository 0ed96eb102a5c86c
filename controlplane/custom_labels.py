"""The custom labels of metrics: the names that they have, and the values that an object gives them.

In: rules, and the labels and annotations of an object. Out: names and values in one order: by the kind of the object,
then as the rules are (kubernetes-sigs/kueue pkg/metrics/custom_labels.go, ff69552e). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.settings.custom_metric_labels import WORKLOAD, CustomLabel

UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""What is reported of a value that is not among those that are tracked."""


@dataclass(frozen=True, slots=True)
class CustomLabels:
    """See the module."""

    rules: tuple[CustomLabel, ...] = ()

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Return the labels of a metric that is about objects of some kinds."""
        return tuple(f"custom_{one.name}" for kind in sorted(kinds) for one in self._of(kind))

    def values(self, kind: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Return the values that an object of a kind gives to its labels, "" where it says nothing."""
        return tuple(_tracked(one, _said(one, labels, annotations)) for one in self._of(kind))

    def unknown(self, kind: str) -> tuple[str, ...]:
        """Return the values of an object that is not there."""
        return tuple("" for _ in self._of(kind))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of objects of which anything is reported."""
        return frozenset(one.source_kind for one in self.rules)

    @property
    def keys_of_workloads(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels and the annotations of Workloads that are reported, which they get from their jobs."""
        found = tuple(self._of(WORKLOAD))
        labels = tuple(dict.fromkeys(one.label_key for one in found if one.label_key))
        return labels, tuple(dict.fromkeys(one.annotation_key for one in found if one.annotation_key))

    def _of(self, kind: str) -> Iterator[CustomLabel]:
        return (one for one in self.rules if one.source_kind == kind)


NO_LABELS = CustomLabels()


def _said(rule: CustomLabel, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return annotations.get(rule.annotation_key, "") if rule.annotation_key else labels.get(rule.label_key, "")


def _tracked(rule: CustomLabel, value: str) -> str:
    return value if not rule.tracked_values or value in rule.tracked_values else UNTRACKED
