"""Reads KubeSchedulerConfiguration: profiles, plugins per extension point, and their args.

In: the configuration as a dict (`kubescheduler.config.k8s.io/v1`) and a registry. Out: one `Framework` a profile, or
`ConfigurationError` with every problem, each with the field it is about. Nothing is guessed: an unknown plugin, point
or field is a problem."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from controlplane.controllers.scheduling.framework.args import Args
from controlplane.controllers.scheduling.framework.plugin import POINTS, Plugin
from controlplane.controllers.scheduling.framework.registry import DEFAULT_MULTI_POINT, IN_TREE, NOT_HERE, Registry
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.plugins.gang import Gang
from controlplane.kube.kinds import Json
from controlplane.kube.well_known import DEFAULT_SCHEDULER
from controlplane.values import Value

_LONGEST = 100.0 * 365 * 24 * 3600
_NO_PLUGINS_YET = ("placementGenerate", "placementScore")
"""Extension points that no plugin here has: kube-scheduler writes them into a configuration, with nothing in them."""
API_VERSION = "kubescheduler.config.k8s.io/v1"


class ConfigurationError(ValueError):
    """What is wrong with a configuration: every problem as `field: problem`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PluginEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One plugin of a set; `*` in `disabled` means all defaults."""

    name: str
    weight: int = 0


class PluginSet(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The plugins of one extension point: what is added to the defaults, and what is taken from them."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()

    def disables(self, name: str) -> bool:
        """Return whether a default plugin is switched off."""
        return any(entry.name in (name, "*") for entry in self.disabled)


class PluginConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The args of one plugin."""

    name: str
    args: Json = {}


class Profile(Value, rename="camel", forbid_unknown_fields=True):
    """One profile: pods that name it as their scheduler go through these plugins."""

    scheduler_name: str = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, PluginSet] = {}
    plugin_config: tuple[PluginConfig, ...] = ()


class KubeSchedulerConfiguration(Value, rename="camel"):
    """The parts of a configuration that a scheduler of ours has; others (clientConnection, leaderElection) are its
    settings.
    """

    api_version: str = API_VERSION
    kind: str = "KubeSchedulerConfiguration"
    parallelism: int = 16
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: float = 1
    pod_max_backoff_seconds: float = 10
    profiles: tuple[Profile, ...] = (Profile(),)


def read(obj: Mapping[str, Any]) -> KubeSchedulerConfiguration:
    """Return a configuration; `ConfigurationError` names the fields."""
    found = _converted(obj)
    if problems := _problems(obj, found):
        raise ConfigurationError(problems)
    return found


def check(obj: Mapping[str, Any], registry: Registry = IN_TREE) -> None:
    """Raise `ConfigurationError` with all that is wrong with a configuration: with what `read` finds, and what `build`
    does."""
    found = _converted(obj)
    problems = _problems(obj, found)
    try:
        build(found, registry)
    except ConfigurationError as error:
        problems += error.problems
    if problems:
        raise ConfigurationError(problems)


def _converted(obj: Mapping[str, Any]) -> KubeSchedulerConfiguration:
    try:
        return msgspec.convert(_without_nulls(obj), KubeSchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise ConfigurationError([_located(str(error))]) from error


def _without_nulls(value: Any) -> Any:
    """Return what was read without the fields that say nothing: `args:` with nothing after it is as good as none."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


_FIELDS = {field.encode_name for field in msgspec.structs.fields(KubeSchedulerConfiguration)}
# What kube-scheduler is told so, and a scheduler of ours by its settings (k8s.io/kube-scheduler config/v1/types.go,
# v1.36).
_SETTINGS = {
    "leaderElection",
    "clientConnection",
    "delayCacheUntilActive",
    "enableProfiling",
    "enableContentionProfiling",
}


def _problems(obj: Mapping[str, Any], found: KubeSchedulerConfiguration) -> list[str]:
    """Return what is wrong with the fields themselves."""
    problems = []
    if found.api_version != API_VERSION:
        problems.append(f"apiVersion: {found.api_version!r} is not {API_VERSION}")
    if found.kind != "KubeSchedulerConfiguration":
        return [*problems, f"kind: {found.kind!r} is not KubeSchedulerConfiguration"]
    for name in sorted(map(str, obj.keys() - _FIELDS - _SETTINGS)):
        if name != "extenders":
            problems.append(f"{name}: there is no such field")
        elif obj[name]:
            problems.append("extenders: none is called by this scheduler; leave them out, or write a plugin")
    if not found.profiles:
        problems.append("profiles: at least one is needed")
    if found.parallelism <= 0:
        problems.append(f"parallelism: {found.parallelism} is not above 0")
    named = obj.get("profiles") or ()
    if len(named) > 1:
        problems += [
            f"profiles[{at}].schedulerName: of several profiles each needs one"
            for at, one in enumerate(named)
            if one.get("schedulerName") is None
        ]
    return [
        *problems,
        *_backoff(found),
        *_percentage(found.percentage_of_nodes_to_score, ""),
        *_of_profiles(found.profiles),
    ]


def _backoff(found: KubeSchedulerConfiguration) -> Iterator[str]:
    initial, most = found.pod_initial_backoff_seconds, found.pod_max_backoff_seconds
    if not 0 < initial < math.inf:
        yield f"podInitialBackoffSeconds: {initial:g} is not above 0"
    if not initial <= most < _LONGEST:
        below = most < initial
        yield f"podMaxBackoffSeconds: must not be {'below podInitialBackoffSeconds' if below else 'a century or more'}"


def _of_profiles(profiles: Sequence[Profile]) -> Iterator[str]:
    names = [profile.scheduler_name for profile in profiles]
    for at, (name, profile) in enumerate(zip(names, profiles, strict=True)):
        if not name:
            yield f"profiles[{at}].schedulerName: a profile needs one"
        if name in names[:at]:
            yield f"profiles[{at}].schedulerName: {name!r} stands there twice"
        yield from _percentage(profile.percentage_of_nodes_to_score, f"profiles[{at}].")


def build(configuration: KubeSchedulerConfiguration, registry: Registry = IN_TREE) -> dict[str, Framework]:
    """Return a framework for each profile, by scheduler name; `ConfigurationError` names the fields."""
    problems: list[str] = []
    found = {}
    for at, profile in enumerate(configuration.profiles):
        framework = _Builder(profile, registry, f"profiles[{at}]", problems).framework()
        given = (profile.percentage_of_nodes_to_score, configuration.percentage_of_nodes_to_score, framework.percentage)
        framework.percentage = next(percentage for percentage in given if percentage is not None)
        found[profile.scheduler_name] = framework
    sorts = {tuple(plugin.name for plugin in framework.points["queueSort"]) for framework in found.values()}
    if len(sorts) > 1:
        problems.append("profiles: all profiles share one queue and need the same queueSort plugin")
    told = {plugin.args for framework in found.values() for plugin in _gangs(framework)}
    if len(told) > 1:
        problems.append("profiles: a group may have pods of several profiles, so all need the same args of plugin Gang")
    if problems:
        raise ConfigurationError(problems)
    return found


def _gangs(framework: Framework) -> list[Plugin]:
    return [plugin for plugin in framework.points["permit"] if isinstance(plugin, Gang)]


def default_framework(plugin_args: Mapping[str, Args] | None = None) -> Framework:
    """Return the default profile, with other args for some of its plugins."""
    given = plugin_args or {}
    problems: list[str] = []
    builder = _Builder(Profile(), IN_TREE, "profile", problems)
    builder.args.update(given)
    framework = builder.framework()
    if problems:
        raise ConfigurationError(problems)
    return framework


class _Builder:
    """Makes one profile's framework; each plugin is made once, whatever the number of its points."""

    def __init__(self, profile: Profile, registry: Registry, where: str, problems: list[str]) -> None:
        self.profile = profile
        self.registry = registry
        self.where = where
        self.problems = problems
        self.made: dict[str, Plugin | None] = {}
        self.args: dict[str, Args] = {}
        self.weights: dict[str, int] = {}

    def framework(self) -> Framework:
        self._look_at_points()
        self._read_args()
        multi = list(self._multi_point())
        points = {point: self._point(point, kind, multi) for point, kind in POINTS.items()}
        for point, least in (("queueSort", 1), ("bind", 1)):
            if len(points[point]) < least or (point == "queueSort" and len(points[point]) > 1):
                exact = "exactly one" if point == "queueSort" else "at least one"
                self.problems.append(f"{self.where}.plugins.{point}: {exact} plugin is needed")
        return Framework(self.profile.scheduler_name, points, self.weights)

    def _look_at_points(self) -> None:
        for point, given in self.profile.plugins.items():
            empty = point in _NO_PLUGINS_YET and not given.enabled
            if point not in POINTS and point != "multiPoint" and not empty:
                self.problems.append(f"{self.where}.plugins.{point}: there is no such extension point")
            names = [entry.name for entry in given.enabled]
            self.problems += [
                f"{self.where}.plugins.{point}.enabled[{at}].name: {name!r} stands there twice"
                for at, name in enumerate(names)
                if name in names[:at]
            ]

    def _multi_point(self) -> Iterator[tuple[PluginEntry, str]]:
        """Yield the plugins of multiPoint: the defaults that are left, overridden in their place, then the others."""
        given = self.profile.plugins.get("multiPoint", PluginSet())
        own = {entry.name: (entry, at) for at, entry in enumerate(given.enabled)}
        where = f"{self.where}.plugins.multiPoint.enabled"
        for plugin, weight in DEFAULT_MULTI_POINT:
            if plugin.name in own and not given.disables(plugin.name):
                entry, at = own.pop(plugin.name)
                yield entry, f"{where}[{at}]"
            elif not given.disables(plugin.name):
                yield PluginEntry(plugin.name, weight), "defaults"
        for entry, at in own.values():
            yield entry, f"{where}[{at}]"

    def _point(self, point: str, kind: type[Plugin], multi: list[tuple[PluginEntry, str]]) -> list[Plugin]:
        given = self.profile.plugins.get(point, PluginSet())
        where = f"{self.where}.plugins.{point}.enabled"
        everywhere = {entry.name for entry, _ in multi if not given.disables(entry.name)}
        explicit = [(entry, f"{where}[{at}]") for at, entry in enumerate(given.enabled)]
        named = {entry.name for entry, _ in explicit}
        first = [one for one in explicit if one[0].name in everywhere]
        middle = [one for one in multi if one[0].name in everywhere - named]
        last = [one for one in explicit if one[0].name not in everywhere]
        found = []
        for entry, place in [*first, *middle, *last]:
            plugin = self._make(entry.name, place)
            if isinstance(plugin, kind):
                found.append(plugin)
                self._weigh(point, entry, place)
            elif plugin is not None and entry.name in named:
                self.problems.append(f"{place}.name: plugin {entry.name!r} has no {point}")
        return found

    def _weigh(self, point: str, entry: PluginEntry, place: str) -> None:
        if point != "score":
            return
        if not 0 <= entry.weight < 2**31:
            said = "is negative" if entry.weight < 0 else "has more than 32 bits"
            self.problems.append(f"{place}.weight: {entry.weight} {said}")
        self.weights[entry.name] = entry.weight or 1

    def _make(self, name: str, place: str) -> Plugin | None:
        if name not in self.made:
            kind = self.registry.get(name)
            if kind is None:
                known = "is not in this scheduler" if name in NOT_HERE else "is not registered"
                self.problems.append(f"{place}.name: plugin {name!r} {known}")
                self.made[name] = None
            else:
                try:
                    self.made[name] = kind(self.args.get(name))
                except ValueError as error:
                    self.problems.append(f"{self.where}.pluginConfig[{name}].args.{error}")
                    self.made[name] = None
        return self.made[name]

    def _read_args(self) -> None:
        for at, config in enumerate(self.profile.plugin_config):
            where = f"{self.where}.pluginConfig[{at}]"
            kind = self.registry.get(config.name)
            if kind is None or config.name in self.args:
                why = "is not registered" if kind is None else "has args already"
                self.problems.append(f"{where}.name: plugin {config.name!r} {why}")
                continue
            if kind.args_type is None:
                if config.args:
                    self.problems.append(f"{where}.args: plugin {config.name!r} takes none")
                continue
            try:
                args: Any = msgspec.convert(config.args, kind.args_type)
            except msgspec.ValidationError as error:
                self.problems.append(_located(str(error), f"{where}.args"))
                continue
            self.args[config.name] = args
            wrong = [*_type_of(args, config.name), *args.check()] if isinstance(args, Args) else []
            if wrong:
                self.problems += [f"{where}.args.{_in_words(problem)}" for problem in wrong]
                self.made[config.name] = None


def _type_of(args: Args, plugin: str) -> Iterator[str]:
    """Yield why args are not those of a plugin, if they say so themselves."""
    if args.kind not in ("", f"{plugin}Args"):
        yield f"kind: {args.kind!r} is not {plugin}Args"
    if args.api_version not in ("", API_VERSION):
        yield f"apiVersion: {args.api_version!r} is not {API_VERSION}"


def _percentage(value: int | None, where: str) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [f"{where}percentageOfNodesToScore: {value} is not within 0…100"]


def _located(message: str, where: str = "") -> str:
    """Turn "Expected `int`, got `str` - at `$.profiles[0].x`" into "profiles[0].x: must be a whole number, not
    text"."""
    problem, _, path = message.partition(" - at `$")
    field = f"{where}{path.rstrip('`')}".lstrip(".") or "configuration"
    return f"{field}: {_in_words(problem)}"


def _in_words(problem: str) -> str:
    for pattern, said in _PROBLEMS:
        problem = pattern.sub(said, problem)
    return problem


def _types(match: re.Match[str]) -> str:
    wanted, found = (" or ".join(_TYPES.get(one, one) for one in names.split(" | ")) for names in match.groups())
    return f"must be {wanted}, not {found}"


_TYPES = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a mapping", "null": "nothing",
}  # fmt: skip
_PROBLEMS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Expected `([^`]*)`, got `([^`]*)`"), _types),
    (re.compile(r"Object contains unknown field `(.*)`"), r"there is no field \1"),
    (re.compile(r"Object missing required field `(.*)`"), r"the field \1 is missing"),
    (re.compile(r"Invalid enum value (.*)"), r"\1 is none of its values"),
)
