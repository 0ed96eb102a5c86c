"""Reads `podgroup-level-rules`: which kinds own the PodGroup of the pods below them, and how many steps lower it is put
(volcano-sh/volcano docs/design/Enhance-Generate-PodGroup-OwnerReferences-for-Normal-Pod.md, ed72c7c81).

In: the text under the key `volcano-controller.conf` of the ConfigMap `volcano-controller-configmap`. Out: `Rules`, or
`RulesInvalid` with everything that is wrong with it. A document holds as a whole or not at all; whoever keeps the rules
keeps the last good ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import yaml

from controlplane.controllers.podgroups.objects import OwnerReference, spelled
from controlplane.kube.documents import UNREADABLE, parts, repeated
from controlplane.kube.kinds import Json
from controlplane.log.event import Part

NAMESPACE, NAME, DATA_KEY = "volcano-system", "volcano-controller-configmap", "volcano-controller.conf"
LIST, ALIAS = "podgroup-level-rules", "podgroupLevel"
_API_VERSION, _KIND, _LEVEL = "apiversion", "kind", "adjust-level"

#: What `deploy/podgroups` installs: a Deployment and a Job own their pods' group, a Workflow's steps have one each.
DEFAULT_DOCUMENT = """\
podgroup-level-rules:
- apiversion: apps/v1
  kind: deployment
  adjust-level: 0
- apiversion: batch/v1
  kind: job
  adjust-level: 0
- apiversion: argoproj.io/v1alpha1
  kind: workflow
  adjust-level: -1
"""


class OwnerRule(Part):
    """One entry: the kind by its exact `apiVersion`, its name without regard to case, and the steps down from it (zero
    or less).
    """

    api_version: str
    kind: str
    adjust_level: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What two entries for one kind share."""
        return self.api_version, self.kind.lower()

    def __str__(self) -> str:
        return (
            f"{self.api_version} {self.kind} {self.adjust_level:+d}"
            if self.adjust_level
            else f"{self.api_version} {self.kind} 0"
        )


class Rules(msgspec.Struct, frozen=True, dict=True):
    """The entries, one for each kind, in the document's order."""

    entries: tuple[OwnerRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], OwnerRule]:
        return {rule.key: rule for rule in self.entries}

    def match(self, reference: OwnerReference) -> OwnerRule | None:
        """Return the rule for an owner reference: apiVersion exactly, kind without regard to case."""
        return self._by_kind.get((reference.api_version, reference.kind.lower()))


class Complaint(Part):
    """One thing that is wrong with a document: the entry (counted from 1; 0: the document itself), the field, and what
    to do.
    """

    entry: int = 0
    field: str = ""
    wrong: str
    remedy: str

    def __str__(self) -> str:
        place = f"entry {self.entry}" if self.entry else "the document"
        return f"{place}: {f'{self.field}: ' if self.field else ''}{self.wrong}; {self.remedy}"


class RulesInvalid(ValueError):  # noqa: N818 - the document is, and is refused
    """A document that cannot be used; `complaints` has everything that is wrong with it."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        super().__init__("\n".join(map(str, complaints)))
        self.complaints = tuple(complaints)


def read_config_map(obj: Json) -> Rules:
    """Return the rules of the ConfigMap; without the data key there are none. Raises `RulesInvalid`."""
    data = obj.get("data")
    if data is None:
        return Rules()
    if not isinstance(data, dict):
        raise _invalid("data", f"is {spelled(data)}", f"write an object with the key {DATA_KEY}")
    text = data.get(DATA_KEY)
    if text is None:
        return Rules()
    if not isinstance(text, str):
        raise _invalid(f"data[{DATA_KEY}]", f"is {spelled(text)}", "write the rules as a block of text, after a |")
    return read_text(text)


def read_text(text: str) -> Rules:
    """Return the rules of a document in YAML; empty means none. Raises `RulesInvalid`."""
    found = parts(text)
    if len(found) > 1:
        raise _invalid("", f"holds {len(found)} documents", f"write one, with the list {LIST}")
    try:
        document = yaml.load("".join(found), _RulesLoader)  # noqa: S506 - a SafeLoader that also refuses repeated keys
    except RecursionError:
        raise _invalid("", "is nested too deep to be read", f"write one list under {LIST}") from None
    except UNREADABLE as error:
        raise _invalid("", f"is not YAML: {_short(error)}", "mend the syntax") from None
    return read_document(document)


def read_document(document: object) -> Rules:
    """Return the rules of a parsed document. Raises `RulesInvalid` with every complaint there is."""
    if document is None:
        return Rules()
    if not isinstance(document, dict):
        raise _invalid("", f"is {spelled(document)}", f"write an object with the list {LIST}")
    lists = [key for key in document if str(key).lower() in (LIST, ALIAS.lower())]
    if len(lists) > 1:
        raise _invalid(" and ".join(map(str, lists)), "are both there", f"keep {LIST} alone: the other is its old name")
    # The file has other keys of Volcano's, which are left alone.
    misspelt = next((key for key in document if key not in lists and _letters(key).startswith("podgroup")), None)
    if misspelt is not None:
        raise _invalid(str(misspelt), "is no key of it", f"write {LIST}")
    entries = document[lists[0]] if lists else None
    if entries is None:
        return Rules()
    if not isinstance(entries, list):
        raise _invalid(str(lists[0]), f"is {spelled(entries)}", "write a list of entries")
    return _entries(entries)


def _letters(key: object) -> str:
    return "".join(filter(str.isalpha, str(key))).lower()


def _entries(entries: Iterable[object]) -> Rules:
    complaints: list[Complaint] = []
    rules: dict[tuple[str, str], tuple[int, OwnerRule]] = {}
    for number, entry in enumerate(entries, 1):
        rule = _entry(number, entry, complaints)
        if rule is None:
            continue
        first, same = rules.setdefault(rule.key, (number, rule))
        if same.adjust_level != rule.adjust_level:
            wrong = (
                f"is {rule.adjust_level}, but entry {first} says {same.adjust_level} for {rule.api_version} {rule.kind}"
            )
            complaints.append(Complaint(entry=number, field=_LEVEL, wrong=wrong, remedy="keep one of the two entries"))
    if complaints:
        raise RulesInvalid(complaints)
    return Rules(tuple(rule for _, rule in rules.values()))


Complain = Callable[[str, str, str], None]
"""Takes a field of an entry, what is wrong with it, and what to do."""


def _entry(number: int, entry: object, complaints: list[Complaint]) -> OwnerRule | None:
    """Return the rule of one entry, or add to the complaints."""
    before = len(complaints)

    def complain(field: str, wrong: str, remedy: str) -> None:
        complaints.append(Complaint(entry=number, field=field, wrong=wrong, remedy=remedy))

    if not isinstance(entry, dict):
        complain("", f"is {spelled(entry)}", f"write an object with {_API_VERSION}, {_KIND} and {_LEVEL}")
        return None
    fields = _fields(entry, complain)
    api_version, kind = fields.get(_API_VERSION), fields.get(_KIND)
    _check_name(_API_VERSION, api_version, "write the kind's group and version, such as apps/v1", complain)
    _check_name(_KIND, kind, "write the kind's name in the singular, such as deployment", complain)
    if isinstance(api_version, str) and api_version and (api_version.count("/") > 1 or "" in api_version.split("/")):
        complain(_API_VERSION, f"is {spelled(api_version)}", "write VERSION, or GROUP/VERSION, such as apps/v1")
    level = 0 if fields.get(_LEVEL) is None else fields[_LEVEL]
    _check_level(level, complain)
    if len(complaints) > before:
        return None
    return OwnerRule(api_version=str(api_version), kind=str(kind), adjust_level=level)


def _fields(entry: Mapping[object, object], complain: Complain) -> dict[str, Any]:
    """Return the fields of an entry by their names in lower case."""
    fields: dict[str, Any] = {}
    for key, value in entry.items():
        name = str(key).lower()
        if name not in (_API_VERSION, _KIND, _LEVEL):
            complain(str(key), "is no field of an entry", f"there are {_API_VERSION}, {_KIND} and {_LEVEL}")
        elif name in fields:
            complain(str(key), "is there twice, in two spellings", "keep one: case does not tell fields apart")
        fields[name] = value
    return fields


def _check_level(level: object, complain: Complain) -> None:
    if isinstance(level, bool) or not isinstance(level, int):
        complain(_LEVEL, f"is {spelled(level)}", "write an integer without quotes, zero or negative")
    elif level > 0:
        remedy = "write zero or a negative number: a group can only be put lower than the matched object"
        complain(_LEVEL, f"is {level}", remedy)


def _check_name(field: str, value: object, remedy: str, complain: Complain) -> None:
    if value is None or value == "":
        complain(field, "is missing", remedy)
    elif not isinstance(value, str):
        complain(field, f"is {spelled(value)}", remedy)
    elif value != "".join(value.split()):
        complain(field, f"is {spelled(value)}, with blanks in it", remedy)


def _invalid(field: str, wrong: str, remedy: str) -> RulesInvalid:
    return RulesInvalid([Complaint(field=field, wrong=wrong, remedy=remedy)])


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _RulesLoader(yaml.SafeLoader):
    """A loader to which a repeated key is an error, since the last one would win unseen, and a merge key, whose
    expansion knows no end.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "merge keys (<<) cannot be used", key.start_mark)
        if (again := repeated(node)) is not None:
            twice = f'the key "{again.value}" is there twice'
            raise yaml.constructor.ConstructorError(None, None, twice, again.start_mark)
        return super().construct_mapping(node, deep)
