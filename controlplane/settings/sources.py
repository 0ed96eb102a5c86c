"""Where settings come from: a YAML file with the line of every value, and the environment.

In: a path, or a mapping of variables. Out: `Raw` values by key, not yet judged, and the problems of the source itself
(unreadable, not YAML, unknown names). Values are judged by `controlplane.settings.load`, whoever they come from."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from controlplane.kube.documents import UNREADABLE, BoundedMerges, is_too_large
from controlplane.settings.model import LEAVES, PREFIX, SECTIONS

OTHER_VARIABLES = {
    "CONTROLPLANE_CONFIG": "The settings file, if `--config` is not given.",
    "CONTROLPLANE_DEBUG": "1: the command line shows the traceback of a failure.",
}
"""Variables with our prefix that are not settings. `CONTROLPLANE_TEST_…` belongs to the test suite and is left
alone."""

_KEYS = frozenset(leaf.key for leaf in LEAVES)
_VARIABLES = {leaf.variable: leaf.key for leaf in LEAVES}
# What the kubelet puts into every pod for a Service whose name begins with "controlplane" (enableServiceLinks, on by
# default).
_SERVICE_LINK = re.compile(
    r".*_SERVICE_HOST|.*_SERVICE_PORT(_[A-Z0-9_]+)?|.*_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Raw:
    """A value as it was found, and its place: `file:line`, a variable, or an option."""

    value: object
    place: str


Found = dict[str, Raw]


def from_environment(env: Mapping[str, str]) -> tuple[Found, list[str]]:
    """Return the settings among the variables, and one problem for every variable with our prefix that is none.

    An empty variable counts as not set, as it does for most programs (a manifest can then blank one out).
    """
    found: Found = {}
    problems = []
    for variable, text in sorted(env.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or variable.startswith(f"{PREFIX}TEST_"):
            continue
        if (variable.endswith("_PORT") and _LINK_VALUE.match(text)) or _SERVICE_LINK.fullmatch(variable):
            continue
        if variable not in _VARIABLES:
            problems.append(f"{variable}: there is no such setting{_nearest_variable(variable)}")
        elif text:
            found[_VARIABLES[variable]] = Raw(text, variable)
    return found, problems


def from_file(path: Path) -> tuple[Found, list[str]]:
    """Return the settings of a YAML file, and its problems: unreadable, not YAML, unknown or repeated names."""
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except FileNotFoundError:
        return {}, [f"{path}: there is no such file."]
    except OSError as error:
        return {}, [f"{path}: cannot be read: {(error.strerror or str(error)).lower()}."]
    except UnicodeDecodeError:
        return {}, [f"{path}: is not UTF-8 text."]
    except RecursionError:
        return {}, [f"{path}: is nested too deep to be read."]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        return {}, [f"{place}: is not valid YAML: {getattr(error, 'problem', None) or 'unreadable character'}."]
    reader = _SettingsFile(str(path))
    if root is not None:
        reader.section(root, "")
    return reader.found, reader.problems


class _Loader(BoundedMerges, yaml.SafeLoader):
    """A SafeLoader that writes out no more than it can hold."""


class _SettingsFile:
    """The walk over one YAML document."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loader = _Loader("")
        self.found: Found = {}
        self.problems: list[str] = []

    def section(self, node: yaml.Node, prefix: str) -> None:
        """Take the settings below one mapping; an empty section says nothing."""
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return
        if not isinstance(node, yaml.MappingNode):
            what = f'"{prefix.rstrip(".")}" must be a section' if prefix else "must be a mapping of sections"
            self.problems.append(f"{self._place(node)}: {what} with settings below it.")
            return
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = f"{prefix}{key_node.value}" if isinstance(key_node, yaml.ScalarNode) else f"{prefix}?"
            if key in seen:
                self.problems.append(f'{self._place(key_node)}: "{key}" is there a second time.')
            seen.add(key)
            if key in SECTIONS:
                self.section(value_node, f"{key}.")
            elif key in _KEYS:
                self._setting(key, value_node)
            else:
                near = nearest(key, _KEYS | SECTIONS)
                self.problems.append(f'{self._place(key_node)}: there is no setting "{key}"{near}')

    def _setting(self, key: str, node: yaml.Node) -> None:
        try:
            value = self._loader.construct_object(node, deep=True)
        except UNREADABLE:
            self.problems.append(f"{self._place(node)}: {key} has a value that cannot be read.")
            return
        if is_too_large(value):
            self.problems.append(f"{self._place(node)}: {key} is too large once its aliases are written out.")
            return
        if value is None:
            self.problems.append(
                f"{self._place(node)}: {key} has no value: give it one, or remove it to have its default."
            )
            return
        self.found[key] = Raw(value, self._place(node))

    def _place(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: `: did you mean …?` if a known name resembles this one, otherwise a full stop."""
    lower = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    if not close:
        last = name.lower().rpartition(".")[2]
        close = [full for full in lower if full.rpartition(".")[2] == last][:1]
    return f": did you mean {lower[close[0]]}?" if close else "."


def _nearest_variable(variable: str) -> str:
    """As `nearest`, without the prefix, in which all variables resemble each other."""
    told = nearest(variable.removeprefix(PREFIX), (known.removeprefix(PREFIX) for known in _VARIABLES))
    return told.replace("did you mean ", f"did you mean {PREFIX}")
