"""What is wrong with an input, in one shape: which object, which field, what was found, and what to do about it.

In: the four parts, said where the fault is found. Out: one sentence for people. Here because every rule
refuses in this form."""

from __future__ import annotations

import msgspec


class InputProblem(msgspec.Struct, frozen=True):
    """A fault of an object: `object` as `Kind namespace/name`, `field` as a path, `what` was found there, what
    `todo`.
    """

    object: str
    field: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.what}; {self.todo}"


class InputRefused(ValueError):  # noqa: N818 - what the user meets is a refusal
    """An input cannot be used; `problems` says everything that is wrong with it."""

    def __init__(self, *problems: InputProblem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def label(kind: str, namespace: str, name: str) -> str:
    """Return how sentences call an object."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
