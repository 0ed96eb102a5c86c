"""What a check found, and what was to be read and could not be.

Pure. A fact is a value, or an `Unread` with what was said in its place; a check makes findings of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from controlplane.settings.secret import mask_urls
from controlplane.values import Value

Result = Literal["ok", "warning", "failed", "unknown"]
DATABASE, MANAGEMENT, QUEUES = "database", "management", "queues"

_T = TypeVar("_T")
_LONGEST = 400


class Finding(Value):
    """What one check found at one place: `database`, `management`, `queues`, or `worker/NAME`.

    `message` says what is, `action` what to do about it; the latter is "" only where the result is `ok`."""

    place: str
    check: str
    result: Result
    message: str
    action: str = ""


class Unread(Value):
    """What could not be read, and why. `status` is that of an API server's answer, 0 where none came."""

    said: str
    status: int = 0


class FindingMaker:
    """Makes the findings of one place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ok(self, check: str, message: str) -> Finding:
        """Return that all is well."""
        return self._finding(check, "ok", message, "")

    def warning(self, check: str, message: str, action: str) -> Finding:
        """Return what works, and may not for long or not as is meant."""
        return self._finding(check, "warning", message, action)

    def failed(self, check: str, message: str, action: str) -> Finding:
        """Return what does not work."""
        return self._finding(check, "failed", message, action)

    def unknown(self, check: str, fact: Unread, action: str) -> Finding:
        """Return that a fact could not be read, with what was said instead."""
        return self._finding(check, "unknown", f"cannot be read: {fact.said}", action)

    def _finding(self, check: str, result: Result, message: str, action: str) -> Finding:
        return Finding(place=self.name, check=check, result=result, message=said(message), action=said(action))


def said(text: object) -> str:
    """Return a text of somebody else's as one line of a bearable length, without the passwords of URLs."""
    line = mask_urls(" ".join(str(text).split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def judged(place: str, checks: Iterable[tuple[str, Callable[[_T], Sequence[Finding]]]], facts: _T) -> list[Finding]:
    """Return what checks find in facts. Whatever a cluster said that a check did not expect is unknown, and no end."""
    found: list[Finding] = []
    for name, check in checks:
        try:
            found += check(facts)
        except Exception as error:
            what = Unread(said=f"the answer is not what was expected ({type(error).__name__})")
            found.append(FindingMaker(place).unknown(name, what, "look at it with `kubectl get -o yaml`, or psql"))
    return found
