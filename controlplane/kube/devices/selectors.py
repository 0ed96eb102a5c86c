"""Compiles a CEL expression that selects devices, and asks it about one.

In: the text of an expression; the driver, attributes and capacities of a device. Out: whether it is selected, or
`SelectorError` where evaluation fails (a missing attribute, a wrong type), as it fails in kube-scheduler. Types are
checked before anything is evaluated: what they do not allow, and what is not known here, is an `UnknownExpression`.
Functions are those of Kubernetes' environment for quantities, versions and strings
(kubernetes/dynamic-resource-allocation cel/compile.go, kubernetes/apiserver pkg/cel/library, v0.36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from controlplane.kube.devices.syntax import Expression, UnknownExpression, parse
from controlplane.kube.devices.versions import Version
from controlplane.kube.quantities import nanos

Kind = str
BOOL, INT, STRING, VERSION, QUANTITY, ANY = "bool", "int", "string", "Semver", "Quantity", "any"
_DEVICE, _ATTRIBUTES, _CAPACITY, _OF_DOMAIN, _CAPACITIES = (
    "device",
    "attributes",
    "capacity",
    "attribute map",
    "capacities",
)
_NESTED = {_ATTRIBUTES: _OF_DOMAIN, _CAPACITY: _CAPACITIES, _OF_DOMAIN: ANY, _CAPACITIES: QUANTITY}
_LIST = "list of "


class SelectorError(ValueError):
    """Evaluating an expression failed; the pod cannot be scheduled until a device or the expression changes."""


@dataclass(frozen=True, order=True, slots=True)
class Amount:
    """A quantity, in billionths of its unit."""

    nanos: int


@dataclass(slots=True)
class Selected:
    """A device as an expression sees it: attributes and capacities by domain and name."""

    driver: str
    shared: bool = False
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)


Evaluate = Callable[[dict[str, Any]], Any]


class _Typed(NamedTuple):
    kind: Kind
    run: Evaluate


@lru_cache(maxsize=1024)
def compiled(text: str) -> Callable[[Selected], bool]:
    """Return what answers for a device; `UnknownExpression` if the expression is not evaluated here."""
    kind, run = _compile(parse(text), {"device": _DEVICE})
    if kind not in (BOOL, ANY):
        raise UnknownExpression(f"it must be true or false, and is of type {kind}")

    def ask(device: Selected) -> bool:
        found = run({"device": lambda: device})
        if not isinstance(found, bool):
            raise SelectorError(f"the result is of type {_name(found)}, not bool")
        return found

    return ask


def _compile(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    match node.kind:
        case "literal":
            value = node.value
            return _Typed(
                BOOL if isinstance(value, bool) else INT if isinstance(value, int) else STRING, lambda _: value
            )
        case "name":
            if node.value not in names:
                raise UnknownExpression(f"{node.value!r} is not known")
            name: str = node.value
            return _Typed(names[name], lambda scope: scope[name]())
        case "list":
            return _list(node, names)
        case "select" | "has":
            return _field(node, names)
        case "index":
            return _entry(_compile(node.parts[0], names), _compile(node.parts[1], names))
        case "call":
            return _call(node, names)
        case _:
            return _operator(node, names)


def _list(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    found = [_compile(part, names) for part in node.parts]
    kinds = {one.kind for one in found}
    if len(kinds) != 1 or ANY in kinds:
        raise UnknownExpression("a list needs entries, all of one type that is known beforehand")
    return _Typed(_LIST + kinds.pop(), lambda scope: [one.run(scope) for one in found])


# ---------------------------------------------------------------- fields of the device


def _field(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    of = _compile(node.parts[0], names)
    name: str = node.value
    if node.kind == "has":
        if of.kind not in (_OF_DOMAIN, _CAPACITIES):
            raise UnknownExpression("has() is asked of attributes and capacities of a domain only")
        return _Typed(BOOL, lambda scope: name in of.run(scope))
    if of.kind == _DEVICE:
        known: dict[str, tuple[Kind, Callable[[Selected], Any]]] = {
            "driver": (STRING, lambda device: device.driver),
            "allowMultipleAllocations": (BOOL, lambda device: device.shared),
            "attributes": (_ATTRIBUTES, lambda device: device.attributes),
            "capacity": (_CAPACITY, lambda device: device.capacity),
        }
        if name not in known:
            raise UnknownExpression(f"a device has no field {name!r}")
        kind, read = known[name]
        return _Typed(kind, lambda scope: read(of.run(scope)))
    return _entry(of, _Typed(STRING, lambda _: name))


def _entry(of: _Typed, key: _Typed) -> _Typed:
    if of.kind not in _NESTED:
        raise UnknownExpression(f"a value of type {of.kind} has no entries")
    if key.kind != STRING:
        raise UnknownExpression(f"entries are asked for by strings, not by {key.kind}")
    empty = of.kind in (_ATTRIBUTES, _CAPACITY)  # a domain that is not there has no entries

    def run(scope: dict[str, Any]) -> Any:
        entries, name = of.run(scope), key.run(scope)
        if name in entries:
            return entries[name]
        if empty:
            return {}
        raise SelectorError(f"no such key: {name}")

    return _Typed(_NESTED[of.kind], run)


# ---------------------------------------------------------------- operators


def _operator(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    parts = [_compile(part, names) for part in node.parts]
    sign = node.kind
    if sign in ("&&", "||"):
        return _logical(sign == "||", parts[0], parts[1])
    if sign == "not":
        _demand(BOOL, parts[0])
        inner = parts[0].run
        return _Typed(BOOL, lambda scope: not _truth(inner(scope)))
    if sign == "?":
        condition, first, second = parts
        _demand(BOOL, condition)
        if first.kind != second.kind:
            raise UnknownExpression("both outcomes of a condition need the same type")
        return _Typed(first.kind, lambda scope: first.run(scope) if _truth(condition.run(scope)) else second.run(scope))
    one, other = parts
    if sign == "in":
        return _contained(one, other)
    if sign in ("==", "!="):
        _comparable(one, other, (BOOL, INT, STRING, VERSION, QUANTITY))
        compare = _same if sign == "==" else _differ
        return _Typed(BOOL, lambda scope: compare(one.run(scope), other.run(scope)))
    _comparable(one, other, (BOOL, INT, STRING))
    return _Typed(BOOL, lambda scope: _ordered(sign, one.run(scope), other.run(scope)))


def _logical(absorbs: bool, one: _Typed, other: _Typed) -> _Typed:
    """Either side alone decides if it `absorbs`, even where the other one fails."""
    _demand(BOOL, one)
    _demand(BOOL, other)

    def run(scope: dict[str, Any]) -> bool:
        try:
            if _truth(one.run(scope)) is absorbs:
                return absorbs
        except SelectorError:
            if _truth(other.run(scope)) is absorbs:
                return absorbs
            raise
        return _truth(other.run(scope))

    return _Typed(BOOL, run)


def _contained(one: _Typed, other: _Typed) -> _Typed:
    if other.kind in _NESTED:
        if one.kind != STRING:
            raise UnknownExpression(f"entries are asked for by strings, not by {one.kind}")
        return _Typed(BOOL, lambda scope: one.run(scope) in other.run(scope))
    if not other.kind.startswith(_LIST) or one.kind not in (ANY, other.kind.removeprefix(_LIST)):
        raise UnknownExpression(f"a value of type {one.kind} is not looked for in one of type {other.kind}")
    if other.kind.removeprefix(_LIST) not in (BOOL, INT, STRING):
        raise UnknownExpression(f"nothing is looked for in a {other.kind}")
    return _Typed(BOOL, lambda scope: (value := one.run(scope), any(_same(e, value) for e in other.run(scope)))[1])


def _demand(kind: Kind, found: _Typed) -> None:
    if found.kind not in (kind, ANY):
        raise UnknownExpression(f"a value of type {found.kind} stands where {kind} is needed")


def _comparable(one: _Typed, other: _Typed, kinds: tuple[Kind, ...]) -> None:
    for each in (one, other):
        if each.kind not in (*kinds, ANY):
            raise UnknownExpression(f"values of type {each.kind} are not compared so")
    if one.kind != other.kind and ANY not in (one.kind, other.kind):
        raise UnknownExpression(f"values of type {one.kind} and {other.kind} are not compared")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SelectorError(f"no such overload: {_name(value)} is not bool")
    return value


def _same(one: Any, other: Any) -> bool:
    """Compare as CEL does: values of different types differ, but a version or quantity with anything else fails."""
    if isinstance(one, Version | Amount) and type(one) is not type(other):
        raise SelectorError(f"no such overload: {_name(one)} == {_name(other)}")
    return type(one) is type(other) and bool(one == other)


def _differ(one: Any, other: Any) -> bool:
    """Compare as CEL does: what is not found equal differs, also where the comparison fails."""
    return type(one) is not type(other) or bool(one != other)


def _ordered(sign: str, one: Any, other: Any) -> bool:
    if type(one) is not type(other) or not isinstance(one, bool | int | str):
        raise SelectorError(f"no such overload: {_name(one)} {sign} {_name(other)}")
    less, equal = bool(one < other), bool(one == other)
    return {"<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[sign]


_NAMES: dict[type, str] = {bool: BOOL, int: INT, str: STRING, Version: VERSION, Amount: QUANTITY}


def _name(value: Any) -> str:
    return _NAMES.get(type(value), "map")


# ---------------------------------------------------------------- functions


def _call(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    name: str = node.value
    if name == "bind" and node.parts and node.parts[0] == Expression("name", "cel"):
        return _bind(node, names)
    parts = [_compile(part, names) for part in node.parts]
    if name in ("quantity", "semver") and len(parts) == 1 and parts[0].kind in (STRING, ANY):
        text = parts[0].run
        read = _amount if name == "quantity" else _version
        return _Typed(QUANTITY if name == "quantity" else VERSION, lambda scope: read(text(scope)))
    return _method(name, parts)


def _bind(node: Expression, names: Mapping[str, Kind]) -> _Typed:
    if len(node.parts) != 4 or node.parts[1].kind != "name" or node.parts[1].value in ("device", "cel"):
        raise UnknownExpression("cel.bind() needs a name, its value, and an expression")
    name, value = node.parts[1].value, _compile(node.parts[2], names)
    body = _compile(node.parts[3], {**names, name: value.kind})
    # The value is computed where it is asked for: what fails and is not needed does no harm.
    return _Typed(body.kind, lambda scope: body.run({**scope, name: lambda: value.run(scope)}))


_STRINGS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}
_ORDERS: dict[str, tuple[Kind, Callable[[Any, Any], Any]]] = {
    "compareTo": (INT, lambda one, other: (one > other) - (one < other)),
    "isGreaterThan": (BOOL, lambda one, other: one > other),
    "isLessThan": (BOOL, lambda one, other: one < other),
}
_PARTS = ("major", "minor", "patch")


def _method(name: str, parts: list[_Typed]) -> _Typed:
    kinds = [part.kind for part in parts]
    match name, parts:
        case (("startsWith" | "endsWith" | "contains"), [_, _]) if {STRING, ANY}.issuperset(kinds):
            asked = _STRINGS[name]
            return _Typed(BOOL, lambda scope: asked(*(_as(str, part.run(scope), name) for part in parts)))
        case "lowerAscii", [text] if text.kind in (STRING, ANY):
            return _Typed(STRING, lambda scope: _lower(_as(str, text.run(scope), name)))
        case (("compareTo" | "isGreaterThan" | "isLessThan"), [one, other]) if _one_kind(kinds):
            return _comparison(name, one, other)
        case (("major" | "minor" | "patch"), [version]) if version.kind in (VERSION, ANY):
            at = _PARTS.index(name)
            return _Typed(INT, lambda scope: _as(Version, version.run(scope), name).numbers[at])
    raise UnknownExpression(f"{name}() of {', '.join(kinds) or 'nothing'} is not evaluated here")


def _comparison(name: str, one: _Typed, other: _Typed) -> _Typed:
    kind, compare = _ORDERS[name]

    def run(scope: dict[str, Any]) -> Any:
        left, right = one.run(scope), other.run(scope)
        if not isinstance(left, Version | Amount) or type(left) is not type(right):
            raise SelectorError(f"no such overload: {_name(left)}.{name}({_name(right)})")
        return compare(left, right)

    return _Typed(kind, run)


def _one_kind(kinds: list[Kind]) -> bool:
    known = set(kinds) - {ANY}
    return len(known) <= 1 and known <= {VERSION, QUANTITY}


def _as(kind: type, value: Any, name: str) -> Any:
    if type(value) is not kind:
        raise SelectorError(f"no such overload: {_name(value)}.{name}()")
    return value


def _lower(text: str) -> str:
    return "".join(letter.lower() if "A" <= letter <= "Z" else letter for letter in text)


def _amount(text: Any) -> Amount:
    try:
        return Amount(nanos(_as(str, text, "quantity")))
    except ValueError as error:
        raise SelectorError(str(error)) from error


def _version(text: Any) -> Version:
    try:
        return Version(_as(str, text, "semver"))
    except ValueError as error:
        raise SelectorError(str(error)) from error
