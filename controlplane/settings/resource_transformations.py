"""Reads what resources are made of others for quota, as Kueue's configuration has it (`resources.transformations`,
kubernetes-sigs/kueue apis/config/v1beta2/configuration_types.go, main after v0.19.2).

In: a list out of a settings file, or JSON out of a variable. Out: values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from controlplane.kube.quantities import nanos

STRATEGIES = ("Retain", "Replace")
RESOURCE = r"(?=.{1,316}$)([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_FIELDS = ("input", "strategy", "multiplyBy", "outputs")


@dataclass(frozen=True, slots=True)
class Transformation:
    """What is made of each unit of the resource `input`: quantities by resource. `strategy`: whether it counts itself
    too."""

    input: str
    strategy: str = "Retain"
    multiply_by: str = ""
    outputs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Transformations:
    """A list of transformations of different resources."""

    def read(self, raw: object) -> tuple[Transformation, ...]:
        """Return the transformations in the order given; messages name the field."""
        if isinstance(raw, str):
            try:
                raw = json.loads(raw) if raw.strip() else []
            except ValueError:
                raise ValueError("must be a list of transformations, in a variable as JSON") from None
        if not isinstance(raw, list):
            raise ValueError("must be a list of transformations, each with input, strategy, multiplyBy and outputs")
        found = tuple(_transformation(one, f"[{n}]") for n, one in enumerate(raw))
        inputs = [one.input for one in found]
        if double := next((name for name in inputs if inputs.count(name) > 1), ""):
            raise ValueError(f'has two transformations of the input "{double}"')
        return found

    def show(self, value: tuple[Transformation, ...]) -> list[dict[str, Any]]:
        """Return the transformations as a settings file would hold them."""
        return [
            {"input": one.input, "strategy": one.strategy}
            | ({"multiplyBy": one.multiply_by} if one.multiply_by else {})
            | ({"outputs": dict(one.outputs)} if one.outputs else {})
            for one in value
        ]

    def describe(self) -> str:
        """Say the shape."""
        return (
            "list of transformations, each with `input`, `strategy`, `multiplyBy` and `outputs`, in a variable as "
            "JSON, or empty"
        )


def _transformation(raw: object, at: str) -> Transformation:
    if not isinstance(raw, dict):
        raise ValueError(f"{at} must have input and outputs")
    if unknown := sorted(str(key) for key in raw if key not in _FIELDS):
        raise ValueError(f"{at} has no field {unknown[0]}")
    strategy = raw.get("strategy") or "Retain"
    if strategy not in STRATEGIES:
        raise ValueError(f'{at}.strategy must be {" or ".join(STRATEGIES)}, not "{strategy}"')
    outputs = raw.get("outputs") or {}
    if not isinstance(outputs, dict):
        raise ValueError(f"{at}.outputs must have a quantity for each resource")
    return Transformation(
        input=_resource(raw.get("input"), f"{at}.input"),
        strategy=strategy,
        multiply_by=_resource(raw["multiplyBy"], f"{at}.multiplyBy") if raw.get("multiplyBy") else "",
        outputs=tuple(
            (_resource(name, f"{at}.outputs"), _quantity(one, f"{at}.outputs.{name}")) for name, one in outputs.items()
        ),
    )


def _resource(raw: object, at: str) -> str:
    if not isinstance(raw, str) or re.fullmatch(RESOURCE, raw) is None:
        raise ValueError(f'{at} is "{raw}", which is no name of a resource: write one such as cpu or nvidia.com/gpu')
    return raw


def _quantity(raw: object, at: str) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"{at} must be a quantity such as 10 or 5Gi")
    try:
        nanos(raw)
    except ValueError as problem:
        raise ValueError(f"{at}: {problem}") from None
    return str(raw)
