"""`why` and `timeline` of objects of one's own cluster: `pod/NS/NAME`, `podgroup/NS/NAME`, `pipelinerun/NS/NAME`.

In: what was typed. Out: the answer, or None where something else is meant: a Workload, a job, or a pod that is placed on another cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli.errors import Exit, Failure
from controlplane.cli.history import open_reader, split
from controlplane.cli.options import Options

if TYPE_CHECKING:
    from controlplane.audit.explain import Explanation
    from controlplane.audit.find import Found
    from controlplane.audit.local import Story
    from controlplane.audit.timeline import Moment

_SAID = {
    "pod": "PodGroups are recorded for pods with one of podgroups.schedulerNames, while the controller podgroups runs",
    "podgroup": "PodGroups are recorded while the controller podgroups runs",
    "pipelinerun": "PipelineRuns are recorded while the controller coscheduling runs",
}


def explained(options: Options, text: str) -> tuple[str, Explanation] | None:
    """Return stream and explanation of an object of one's own cluster; `Failure` (exit code 5) if the log has none."""
    from controlplane.audit.local import explain_story

    found = _find(options, text)
    return None if found is None else (found.stream, explain_story(found))


def narrated(options: Options, text: str) -> tuple[Found, list[Moment]] | None:
    """Return streams and moments of an object of one's own cluster; `Failure` (exit code 5) if the log has none."""
    from controlplane.audit.find import Found
    from controlplane.audit.local import story_moments

    found = _find(options, text)
    return None if found is None else (Found(found.stream, []), story_moments(found))


def _find(options: Options, text: str) -> Story | None:
    from controlplane.audit.local import PREFIXES, story

    prefix, _, rest = text.partition("/")
    kind = PREFIXES.get(prefix, "")
    if not kind or "/" not in rest:
        return None
    namespace, name = split(rest)
    with open_reader(options) as reader:
        found = story(reader, kind, namespace, name)
        if found is None and kind == "pod" and reader.streams("sourcepod", namespace=namespace, name=name):
            return None
        if found is None:
            raise Failure(
                f"there is no {kind} {namespace}/{name} in the log {reader.log}: {_SAID[kind]}", Exit.NOT_FOUND
            )
        return found
