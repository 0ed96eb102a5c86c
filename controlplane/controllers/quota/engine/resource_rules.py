"""Says what of a pod's requests counts as quota: resources that are left out, and others that are made of them.

In: the requests of one pod. Out: what is asked of ClusterQueues for it (kubernetes-sigs/kueue pkg/workload/workload.go,
`dropExcludedResources` and `applyResourceTransformations`, main after v0.19.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from controlplane.controllers.quota.engine.amounts import Requests, in_order, requested
from controlplane.kube.quantities import NANO


@dataclass(frozen=True, slots=True)
class ResourceTransformation:
    """What is made of a resource: `outputs` for each unit of it, times the request for `multiply_by` if there is one.
    `replaces`: it is not asked for itself.
    """

    outputs: Mapping[str, Fraction]
    replaces: bool = False
    multiply_by: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Prefixes of resources that are left out, and transformations by the resource that they are of."""

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, ResourceTransformation] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything counts in another way than it is asked for."""
        return bool(self.excluded or self.transformations)

    def counted(self, requests: Requests) -> Requests:
        """Return what counts of the requests of one pod. A negative sum of outputs is none: it takes nothing from what
        the pod asks for itself.
        """
        kept = {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}
        if not any(name in self.transformations for name in kept):
            return kept
        retained: dict[str, Fraction] = {}
        made: dict[str, Fraction] = {}
        units = {name: _units(name, amount) for name, amount in kept.items()}
        for name, amount in units.items():
            rule = self.transformations.get(name)
            if rule is None or not rule.replaces:
                retained[name] = amount
            if rule is not None:
                times = amount * units.get(rule.multiply_by, Fraction(1))
                for output, factor in rule.outputs.items():
                    made[output] = made.get(output, Fraction(0)) + times * factor
        for name, amount in made.items():
            retained[name] = retained.get(name, Fraction(0)) + max(Fraction(0), amount)
        return in_order({name: _rounded(name, amount) for name, amount in retained.items()})


AS_ASKED = ResourceRules()
"""Everything counts as it is asked for."""


def _units(resource: str, amount: int) -> Fraction:
    return Fraction(amount, 1000) if resource == "cpu" else Fraction(amount)


def _rounded(resource: str, amount: Fraction) -> int:
    """Return an amount as requests have it, rounded up."""
    billionths = amount * NANO
    return requested(resource, -(-billionths.numerator // billionths.denominator))
