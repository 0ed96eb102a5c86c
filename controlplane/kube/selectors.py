"""Label selectors and node selector terms, parsed once and asked often.

In: `labelSelector`, `nodeSelector` and `nodeSelectorTerms` as dicts, or a selector as text. Out: hashable values with
`matches`. A selector that the API would refuse raises `InvalidSelector`, which names the field; a node selector term
that does not parse matches nothing, and the others are still asked (kubernetes/kubernetes
staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go, v1.36)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from controlplane.kube.fields import number as number_of

Labels = Mapping[str, str]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?\d+")
_SET_BASED = ("In", "NotIn")
_EXISTENCE = ("Exists", "DoesNotExist")
_NUMERIC = ("Gt", "Lt")


class InvalidSelector(ValueError):  # noqa: N818 - it names what is wrong with the user's object
    """A selector that the API refuses: the field, and what is wrong with it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem = field, problem


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label: key, operator (In, NotIn, Exists, DoesNotExist, Gt, Lt) and values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether labels meet the condition. NotIn and DoesNotExist are met by a missing label."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found is not None and found in self.values
            case "NotIn":
                return found is None or found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
        return found is not None and self._compares(found)

    def _compares(self, found: str) -> bool:
        left, right = int64(found), int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector: all requirements must be met. `nothing` is what an absent selector is: it matches no labels."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Labels) -> bool:
        """Return whether labels are selected; an empty selector selects all."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def everything(self) -> bool:
        """Whether it is the empty selector `{}`."""
        return not self.nothing and not self.requirements

    def plus(self, more: Iterable[Requirement]) -> LabelSelector:
        """Return the selector with more requirements; one that matches nothing stays so."""
        return self if self.nothing else LabelSelector((*self.requirements, *more))


NOTHING = LabelSelector(nothing=True)
EVERYTHING = LabelSelector()


def label_selector(obj: Mapping[str, Any] | None, field: str = "labelSelector") -> LabelSelector:
    """Return a LabelSelector; an absent one matches nothing, an empty one everything. `InvalidSelector` names the
    field.
    """
    if obj is None:
        return NOTHING
    found = [_checked(str(key), "In", (str(value),), f"{field}.matchLabels") for key, value in _pairs(obj, field)]
    for number, expression in enumerate(_listed(obj, "matchExpressions", field)):
        where = f"{field}.matchExpressions[{number}]"
        if not isinstance(expression, Mapping):
            raise InvalidSelector(where, "expected an object with key, operator and values")
        operator = str(expression.get("operator") or "")
        if operator in _NUMERIC:
            raise InvalidSelector(f"{where}.operator", f'"{operator}" is not a valid label selector operator')
        found.append(_expression(expression, where))
    return LabelSelector(tuple(found))


_TERM = re.compile(
    r"""\s*(?:!\s*(?P<absent>[^\s=!,()<>]+)
    |(?P<key>[^\s=!,()<>]+)\s*(?:(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s=!,()<>]*)
    |(?<=\s)(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_OPERATORS = {"==": "In", "=": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}


@lru_cache(maxsize=1024)
def parse_selector(text: str, field: str = "labelSelector") -> LabelSelector:
    """Return a label selector written as for `kubectl get -l`: `env=prod,region in (eu,us),!spot`; empty text selects
    everything. `InvalidSelector` names the field (`Parse` in kubernetes/kubernetes
    staging/src/k8s.io/apimachinery/pkg/labels/selector.go, v1.36).
    """
    found: list[Requirement] = []
    at = 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None or (term["end"] == "," and not text[term.end() :].strip()):
            raise InvalidSelector(field, f"{text!r} is not a label selector such as `env=prod,region in (eu,us),!spot`")
        at = term.end()
        if term["absent"]:
            found.append(_checked(term["absent"], "DoesNotExist", (), field))
        elif term["set"]:
            values = tuple(value.strip() for value in term["values"].split(","))
            found.append(_checked(term["key"], _OPERATORS[term["set"]], values, field))
        elif term["operator"]:
            found.append(_checked(term["key"], _OPERATORS[term["operator"]], (term["value"],), field))
        else:
            found.append(_checked(term["key"], "Exists", (), field))
    return LabelSelector(tuple(found))


def of_set(labels: Mapping[str, Any]) -> LabelSelector:
    """Return the selector of a plain map (`nodeSelector`, a Service's selector): every label equal."""
    return LabelSelector(tuple(Requirement(str(key), "In", (str(value),)) for key, value in sorted(labels.items())))


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One node selector term: conditions on labels, and (equal, name) pairs on metadata.name. `error` if it does not
    parse.
    """

    labels: tuple[Requirement, ...] = ()
    names: tuple[tuple[str, bool, str], ...] = ()
    error: str = ""

    def matches(self, labels: Labels, name: str) -> bool:
        """Return whether a node is selected; a term that does not parse selects none."""
        if self.error:
            return False
        fields = {"metadata.name": name}
        return all(requirement.matches(labels) for requirement in self.labels) and all(
            (fields.get(key, "") == value) is equal for key, equal, value in self.names
        )


def node_terms(listed: Iterable[Mapping[str, Any]], field: str = "nodeSelectorTerms") -> tuple[NodeTerm, ...]:
    """Return node selector terms without the empty ones, which match nothing."""
    terms = ((number, term) for number, term in enumerate(listed) if not is_empty_term(term))
    return tuple(node_term(term, f"{field}[{number}]") for number, term in terms)


def preferred_terms(
    listed: Iterable[dict[str, Any]], field: str = "preferredDuringSchedulingIgnoredDuringExecution"
) -> tuple[tuple[int, NodeTerm], ...]:
    """Return preferred scheduling terms with their weights, without those that say nothing or weigh nothing; `Misfit`
    for a weight that is no integer."""
    weighed = (
        (number_of(term, "weight", f"{field}[{at}]"), term.get("preference") or {}, f"{field}[{at}].preference")
        for at, term in enumerate(listed)
    )
    return tuple((weight, node_term(one, where)) for weight, one, where in weighed if weight and not is_empty_term(one))


def is_empty_term(term: Mapping[str, Any]) -> bool:
    """Return whether a node selector term says nothing."""
    return not term.get("matchExpressions") and not term.get("matchFields")


def node_term(term: Mapping[str, Any], field: str) -> NodeTerm:
    """Return one node selector term; what is wrong with it is kept in its `error`."""
    try:
        labels = tuple(
            _expression(expression, f"{field}.matchExpressions[{number}]")
            for number, expression in enumerate(term.get("matchExpressions") or ())
        )
        names = tuple(
            _field(expression, f"{field}.matchFields[{number}]")
            for number, expression in enumerate(term.get("matchFields") or ())
        )
    except InvalidSelector as problem:
        return NodeTerm(error=str(problem))
    return NodeTerm(labels, names)


def _pairs(obj: Mapping[str, Any], field: str) -> list[tuple[Any, Any]]:
    found = obj.get("matchLabels") or {}
    if not isinstance(found, Mapping):
        raise InvalidSelector(f"{field}.matchLabels", "expected an object of labels")
    return sorted(found.items())


def _listed(obj: Mapping[str, Any], name: str, field: str) -> list[Any]:
    found = obj.get(name) or []
    if not isinstance(found, list):
        raise InvalidSelector(f"{field}.{name}", "expected a list")
    return found


def _expression(expression: Mapping[str, Any], where: str) -> Requirement:
    values = tuple(str(value) for value in _listed(expression, "values", where))
    return _checked(str(expression.get("key") or ""), str(expression.get("operator") or ""), values, where)


@lru_cache(maxsize=8192)
def _checked(key: str, operator: str, values: tuple[str, ...], where: str) -> Requirement:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
        raise InvalidSelector(f"{where}.key", f"{key!r} is not a label key")
    if operator not in _TAKES:
        raise InvalidSelector(f"{where}.operator", f'"{operator}" is not an operator')
    takes, fits = _TAKES[operator]
    if not fits(values):
        raise InvalidSelector(f"{where}.values", f"{operator} {takes}")
    for value in values:
        if value and not _NAME.fullmatch(value):
            raise InvalidSelector(f"{where}.values", f"{value!r} is not a label value")
    return Requirement(key, operator, values)


def _one_integer(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and int64(values[0]) is not None


#: What an operator asks of its values, and whether they are that.
_TAKES: dict[str, tuple[str, Callable[[tuple[str, ...]], bool]]] = {
    **dict.fromkeys(_SET_BASED, ("needs at least one value", bool)),
    **dict.fromkeys(_EXISTENCE, ("takes no values", lambda values: not values)),
    **dict.fromkeys(_NUMERIC, ("needs exactly one integer", _one_integer)),
}


def _field(expression: Mapping[str, Any], where: str) -> tuple[str, bool, str]:
    operator, values = expression.get("operator"), list(expression.get("values") or ())
    if operator not in _SET_BASED:
        raise InvalidSelector(f"{where}.operator", f'"{operator}" is not an operator of matchFields')
    if len(values) != 1:
        raise InvalidSelector(f"{where}.values", f"{operator} in matchFields needs exactly one value")
    return str(expression.get("key") or ""), operator == "In", str(values[0])


def int64(text: str) -> int | None:
    """Return a decimal number of 64 bits, None if the text is none."""
    if not _INTEGER.fullmatch(text) or not text.isascii():
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None
