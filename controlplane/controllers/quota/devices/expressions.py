"""Asks expressions which devices they select.

In: expressions in CEL, a slice. Out: for each of its devices whether it is selected, or why that cannot be said. The
expressions are those of DeviceClasses, requests and settings; what is not read here is an error, as where it does not
compile for Kueue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from controlplane.controllers.quota.devices.refusal import DeviceProblem, invalid
from controlplane.kube.devices.objects import Device, ResourceSlice
from controlplane.kube.devices.selectors import Selected, SelectorError, compiled
from controlplane.kube.devices.syntax import UnknownExpression

Answer = bool | str
"""Whether a device is selected; a text is why that cannot be said."""


def errors_of(selectors: Sequence[str | None], where: str, context: str) -> list[DeviceProblem]:
    """Return the errors of expressions that do not compile; `where` is the path of the list."""
    found = []
    for at, one in enumerate(selectors):
        if one is not None and (why := _error(one)):
            found.append(invalid(f"{where}[{at}].cel.expression", one, f"{context}: {why}"))
    return found


@lru_cache(maxsize=1024)
def _error(expression: str) -> str:
    try:
        compiled(expression)
    except UnknownExpression as error:
        return str(error)
    return ""


_MOST = 256  # expressions whose answers are kept for a slice
_known: WeakKeyDictionary[ResourceSlice, dict[str, tuple[Answer, ...]]] = WeakKeyDictionary()


def answers(one: ResourceSlice, expression: str) -> tuple[Answer, ...]:
    """Return the answers of an expression that compiles, for each device of a slice. They are kept for as long as the
    slice is."""
    of = _known.setdefault(one, {})
    if expression not in of:
        if len(of) >= _MOST:
            of.clear()
        of[expression] = _asked(one, expression)
    return of[expression]


def _asked(one: ResourceSlice, expression: str) -> tuple[Answer, ...]:
    ask = compiled(expression)
    found: list[Answer] = []
    for device in one.devices:
        try:
            found.append(ask(_as_selected(one, device)))
        except SelectorError as error:
            found.append(str(error))
    return tuple(found)


def _as_selected(one: ResourceSlice, device: Device) -> Selected:
    """Kueue does not say of a device whether several claims may have it; an expression that asks is told that they may
    not."""
    return Selected(one.driver, attributes=device.attributes, capacity=device.capacity)


def selected(one: ResourceSlice, at: int, selectors: Sequence[str | None]) -> Answer:
    """Return whether a device of a slice is selected by all of some expressions: the first that says something else is
    the answer."""
    for expression in selectors:
        if expression is not None and (answer := answers(one, expression)[at]) is not True:
            return answer
    return True
