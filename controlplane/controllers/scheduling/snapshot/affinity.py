"""Reads inter-pod affinity as a pod has it: terms, parsed and hashable, so that pods with the same terms can be counted
together.

In: `spec.affinity` and the pod's namespace. Out: `PodAffinity`. A selector that does not parse is the pod's own fault
and is kept as `error` (kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import Obj, items, number, section, strings, text
from controlplane.kube.selectors import NOTHING, InvalidSelector, Labels, LabelSelector, label_selector
from controlplane.kube.well_known import PREFERRED_AFFINITY, REQUIRED_AFFINITY


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One pod affinity term. With neither namespaces nor a selector of them, `namespaces` holds the pod's own."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Return whether a pod is meant, by its namespace, its labels and its namespace's labels."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)

    def may_match(self, namespace: str, labels: Labels) -> bool:
        """Return whether it hangs on the labels of its namespace whether a pod is meant."""
        selector = self.namespace_selector
        if namespace in self.namespaces or selector.nothing or selector.everything:
            return False
        return self.selector.matches(labels)

    def narrowed(self, known: Mapping[str, Labels]) -> AffinityTerm:
        """Return the term with its namespace selector replaced by the known namespaces that it selects; `{}` stays."""
        if self.namespace_selector.nothing or self.namespace_selector.everything:
            return self
        selected = {name for name, labels in known.items() if self.namespace_selector.matches(labels)}
        return AffinityTerm(self.topology_key, self.selector, self.namespaces | selected)


Weighted = tuple[int, AffinityTerm]


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """All terms of one pod: required and preferred, affinity and anti-affinity. `error` if one does not parse; its kind
    is then empty.
    """

    required: tuple[AffinityTerm, ...] = ()
    anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[Weighted, ...] = ()
    preferred_anti: tuple[Weighted, ...] = ()
    error: str = ""

    @property
    def says_something(self) -> bool:
        """Whether there is any term."""
        return bool(self.required or self.anti or self.preferred or self.preferred_anti)


T = TypeVar("T")
NONE = PodAffinity()


def pod_affinity(spec: Obj, namespace: str, where: str) -> PodAffinity:
    """Return the inter-pod terms of a pod's spec; `Misfit` names a field of the wrong type."""
    affinity = section(spec, "affinity", where)
    inside = f"{where}.affinity"
    towards, away = section(affinity, "podAffinity", inside), section(affinity, "podAntiAffinity", inside)
    if not towards and not away:
        return NONE
    errors: list[str] = []
    return PodAffinity(
        _parsed(_required, towards, namespace, f"{inside}.podAffinity", errors),
        _parsed(_required, away, namespace, f"{inside}.podAntiAffinity", errors),
        _parsed(_preferred, towards, namespace, f"{inside}.podAffinity", errors),
        _parsed(_preferred, away, namespace, f"{inside}.podAntiAffinity", errors),
        error="; ".join(errors),
    )


def _parsed(
    parse: Callable[[Obj, str, str], tuple[T, ...]], affinity: Obj, namespace: str, where: str, errors: list[str]
) -> tuple[T, ...]:
    """Return the terms of one kind; none of them where one does not parse, which leaves the other kinds alone."""
    try:
        return parse(affinity, namespace, where)
    except InvalidSelector as problem:
        errors.append(str(problem))
        return ()


def _required(affinity: Obj, namespace: str, where: str) -> tuple[AffinityTerm, ...]:
    listed = items(affinity, REQUIRED_AFFINITY, where)
    return tuple(_term(term, namespace, f"{where}.{REQUIRED_AFFINITY}[{at}]") for at, term in enumerate(listed))


def _preferred(affinity: Obj, namespace: str, where: str) -> tuple[Weighted, ...]:
    found = []
    for at, entry in enumerate(items(affinity, PREFERRED_AFFINITY, where)):
        inside = f"{where}.{PREFERRED_AFFINITY}[{at}]"
        term = dict(section(entry, "podAffinityTerm", inside))
        found.append((number(entry, "weight", inside), _term(term, namespace, f"{inside}.podAffinityTerm")))
    return tuple(found)


def _term(term: Json, namespace: str, where: str) -> AffinityTerm:
    namespaces = strings(term, "namespaces", where)
    by_labels = None if term.get("namespaceSelector") is None else section(term, "namespaceSelector", where)
    by_pod = None if term.get("labelSelector") is None else section(term, "labelSelector", where)
    own = not namespaces and by_labels is None
    return AffinityTerm(
        topology_key=text(term, "topologyKey", where),
        selector=label_selector(by_pod, f"{where}.labelSelector"),
        namespaces=frozenset({namespace} if own else namespaces),
        namespace_selector=label_selector(by_labels, f"{where}.namespaceSelector"),
    )
