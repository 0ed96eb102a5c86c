"""What a simulated container has printed: `kubectl logs`.

In: a pod and the options of GET pods/log. Out: lines, and whether more can come; the refusals are those of a real
server. Nothing runs in a simulated container, so its log says when it began, what it would run, and how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.kube.kinds import Json, meta, nested
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.cells import parse_time
from controlplane.simulation.apiserver.routes import truthy


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What was asked for; `tail` and `limit` (bytes) are None for everything, `since` None for any time."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit: int | None = None
    since: datetime | None = None


def log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """Read the options of a query; 400 for numbers that are none."""
    seconds, moment = _number(query, "sinceSeconds"), query.get("sinceTime")
    return LogOptions(
        container=query.get("container", ""),
        follow=truthy(query.get("follow")),
        previous=truthy(query.get("previous")),
        timestamps=truthy(query.get("timestamps")),
        tail=_number(query, "tailLines"),
        limit=_number(query, "limitBytes"),
        since=parse_time(moment) if moment else None if seconds is None else now - timedelta(seconds=seconds),
    )


def container_of(pod: Json, options: LogOptions) -> str:
    """Return the container that is meant; 400 if there is none of that name, or several and none was named."""
    spec, name = pod.get("spec") or {}, meta(pod)["name"]
    known = [one["name"] for field in ("containers", "initContainers") for one in spec.get(field) or ()]
    if options.container:
        if options.container not in known:
            raise errors.bad_request(f"container {options.container} is not valid for pod {name}")
        return options.container
    containers = [one["name"] for one in spec.get("containers") or ()]
    if len(containers) != 1:
        listed = " ".join(containers)
        raise errors.bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
    return str(containers[0])


def lines_of(pod: Json, options: LogOptions) -> tuple[list[str], bool]:
    """Return the lines of a container and whether more can come; 400 for one that waits, or had none before."""
    name, container = meta(pod)["name"], container_of(pod, options)
    if options.previous:
        raise errors.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    status = nested(pod, "status")
    found = next((one for one in status.get("containerStatuses") or () if one.get("name") == container), None)
    if found is None:
        if nested(pod, "spec").get("nodeName"):
            raise errors.bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')
        return [], True
    ended = nested(found, "state").get("terminated")
    began = (ended or nested(found, "state", "running")).get("startedAt") or status.get("startTime")
    image = found.get("image") or "not named"
    said = [(began, f"simulated: nothing runs here; the image is {image}{_command(pod, container)}")]
    if ended is not None:
        said.append((ended.get("finishedAt"), f"simulated: ended with exit code {ended.get('exitCode', 0)}"))
    return [_line(at, text, options) for at, text in said if _is_asked(at, options)], ended is None


def shortened(lines: list[str], options: LogOptions) -> list[str]:
    """Return the last lines that were asked for."""
    return lines if options.tail is None else lines[len(lines) - min(options.tail, len(lines)) :]


def _command(pod: Json, container: str) -> str:
    spec = next(
        one
        for field in ("containers", "initContainers")
        for one in pod["spec"].get(field) or ()
        if one["name"] == container
    )
    words = [*(spec.get("command") or ()), *(spec.get("args") or ())]
    return f", the command {shlex.join(words)}" if words else ""


def _is_asked(at: object, options: LogOptions) -> bool:
    then = parse_time(at)
    return options.since is None or then is None or then >= options.since


def _line(at: object, text: str, options: LogOptions) -> str:
    return f"{at} {text}\n" if options.timestamps and at else f"{text}\n"


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise errors.bad_request(f'Invalid value: "{text}": {name} must be a non-negative integer')
    return int(text)
