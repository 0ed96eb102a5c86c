"""Says why the devices of a Workload cannot be counted, in the words of Kueue's conditions.

In: the field, what is wrong. Out: the text of an error of k8s.io/apimachinery pkg/util/validation/field, v0.36, alone
or several together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple


class DeviceProblem(NamedTuple):
    """One error: where, of which kind and value, and why."""

    where: str
    what: str
    why: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, self))

    def of(self, claim: str, template: str) -> DeviceProblem:
        """Return the error of a template as that of the claim that is made of it; `claim` is its path, "" if it has it
        already."""
        where = f"{claim}.{self.where}" if claim else self.where
        return DeviceProblem(where, self.what, f"ResourceClaimTemplate {template}: {self.why}")


class DeviceRefusal(ValueError):  # noqa: N818 - it is an answer
    """The devices of a Workload cannot be counted; the text says where, and why."""

    def __init__(self, problems: Iterable[DeviceProblem]) -> None:
        self.problems = list(problems)
        super().__init__(together(self.problems))

    @classmethod
    def of_all(cls, why: str) -> DeviceRefusal:
        """Return a refusal that concerns no field."""
        return cls([DeviceProblem("", why)])


def together(problems: Iterable[DeviceProblem]) -> str:
    """Return several errors as one text, each once."""
    errors = list(dict.fromkeys(str(one) for one in problems))
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def invalid(where: str, found: str | None, why: str) -> DeviceProblem:
    """Return the error of a value that may not be so."""
    return DeviceProblem(where, f"Invalid value: {json.dumps(found, ensure_ascii=False)}", why)


def not_found(where: str, what: str) -> DeviceProblem:
    """Return the error of something that is not there."""
    return DeviceProblem(where, f"Not found: {json.dumps(what, ensure_ascii=False)}")


def internal(where: str, why: str) -> DeviceProblem:
    """Return the error of something that may be otherwise later, though the Workload stays as it is."""
    return DeviceProblem(where, "Internal error", why)
