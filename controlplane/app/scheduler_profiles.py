"""Makes the profiles that a scheduler process runs of a KubeSchedulerConfiguration file.

In: a path, and the installed plugins. Out: `Setup`, or `BadConfiguration` with every problem, each naming its field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.app.scheduler_plugins import PluginError, registry
from controlplane.controllers.scheduling.framework.configuration import (
    ConfigurationError,
    KubeSchedulerConfiguration,
    build,
    check,
    read,
)
from controlplane.controllers.scheduling.framework.hints import Hints
from controlplane.controllers.scheduling.framework.plugin import Plugin
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import SUCCESS, Status
from controlplane.controllers.scheduling.gangs.place import GANG
from controlplane.controllers.scheduling.queue.queue import Queue, QueueTiming
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.documents import documents

DEFAULT_PROFILE = "controlplane"


class BadConfiguration(ValueError):  # noqa: N818 - what the user is told
    """The configuration cannot be used: every problem, one a line, each with its field."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Profiles by scheduler name, in the order of the file, and how the queue paces itself."""

    names: tuple[str, ...]
    frameworks: Mapping[str, Framework]
    timing: QueueTiming

    @property
    def gangs(self) -> bool:
        """Whether a profile has the plugin Gang."""
        return any(plugin.name == GANG for framework in self.frameworks.values() for plugin in _plugins(framework))

    def queue(self, cluster: ClusterTables) -> Queue:
        """Return a queue for these profiles."""
        frameworks = self.frameworks
        plugins = {plugin.name: plugin for framework in frameworks.values() for plugin in _plugins(framework)}
        for plugin in (plugin for framework in frameworks.values() for plugin in _plugins(framework)):
            plugin.begin(cluster)
        first = next(iter(frameworks.values()))
        return Queue(first.sort_key, _pre_enqueue(frameworks), Hints(plugins.values(), cluster), self.timing)


def load(path: str) -> Setup:
    """Return the profiles of a file; without one, a single profile with the default plugins."""
    if not path:
        return setup_of(read({"profiles": [{"schedulerName": DEFAULT_PROFILE}]}), "the default configuration")
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfiguration(f"scheduler.config: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"scheduler.config: {path} cannot be read: it is not UTF-8 text") from None
    found = _content(path, text)
    try:
        check(found, registry())
        return setup_of(read(found), path)
    except ConfigurationError as error:
        raise BadConfiguration("\n".join(f"{path}: {problem}" for problem in error.problems)) from None
    except PluginError as error:
        raise BadConfiguration(str(error)) from None


def _content(path: str, text: str) -> dict[str, Any]:
    """Return what a file holds: one document, whose aliases are written out as far as that is bounded."""
    found = list(documents(f"scheduler.config: {path}", text))
    if wrong := next((one for one in found if one.wrong), None):
        raise BadConfiguration(f"{wrong.place} {wrong.wrong}")
    if len(found) > 1:
        raise BadConfiguration(f"scheduler.config: {path} holds {len(found)} documents: write one")
    content = found[0].content if found else None
    if not isinstance(content, dict):
        raise BadConfiguration(
            f"scheduler.config: {path} is not a KubeSchedulerConfiguration, but {type(content).__name__}"
        )
    return content


def setup_of(configuration: KubeSchedulerConfiguration, where: str) -> Setup:
    """Return the profiles of a configuration that was read from `where`."""
    frameworks = build(configuration, registry())
    timing = QueueTiming(configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds)
    return Setup(tuple(frameworks), frameworks, timing)


def _plugins(framework: Framework) -> list[Plugin]:
    return [plugin for plugins in framework.points.values() for plugin in plugins]


def _pre_enqueue(frameworks: Mapping[str, Framework]) -> Callable[[Pod], Status]:
    """Return PreEnqueue of each pod's own profile."""

    def ask(pod: Pod) -> Status:
        framework = frameworks.get(pod.scheduler_name)
        return framework.pre_enqueue(pod) if framework is not None else SUCCESS

    return ask
