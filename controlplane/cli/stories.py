"""From what was typed after `timeline` to what is told: the streams, the moments, the lanes of the picture.

In: `[KIND] NAME`. Out: a `ToldStory`, or a `CommandFailure` with the sentence that says what may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from controlplane.cli import history
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.options import Options
from controlplane.cli.output import aside

if TYPE_CHECKING:
    from controlplane.audit.find import Found
    from controlplane.audit.lanes import Lane
    from controlplane.audit.places import Story
    from controlplane.audit.reads import LogReader
    from controlplane.audit.timeline import TimelineEntry

PLACES = ("cluster", "queue", "node")
KINDS = ("workload", *PLACES, "candidate", "pod", "podgroup", "pipelinerun")
_NEAREST, _ALIKE = 3, 0.5
_LOGS = 20  # logs of one database in which a name is looked for


class ToldStory(NamedTuple):
    """What is told of a thing. `lanes` are empty unless they were asked for; `head` is when the log was last
    written."""

    title: str
    streams: Found
    entries: Sequence[TimelineEntry]
    lanes: Sequence[Lane]
    head: datetime


def told(options: Options, words: Sequence[str], *, lanes: bool) -> ToldStory:
    """Return what is to be told of the thing that was named."""
    kind, name = _kind_and_name(words)
    if _singular(kind) == "queue" and options.namespace is not None and "/" not in name:
        name = f"{options.namespace}/{name}"
    if _singular(kind) in PLACES:
        return _of_place(options, _singular(kind), name)
    if _singular(name.partition("/")[0]) not in PLACES:
        name = history.full_name(options, name)
    if kind and _singular(kind) != "workload":
        name = f"{kind}/{name}"
    first, _, rest = name.partition("/")
    if _singular(first) not in PLACES or "/" in rest:
        return _of_object(options, name, lanes=lanes)
    try:
        return _of_object(options, name, lanes=lanes)
    except CommandFailure as error:  # no Workload of a namespace that is called so: then it is the kind
        if error.code != Exit.NOT_FOUND:
            raise
        return _of_place(options, _singular(first), rest)


def _kind_and_name(words: Sequence[str]) -> tuple[str, str]:
    """Return what the words of a command line name; the kind is "" where the name alone has to tell."""
    if len(words) > 2:
        raise CommandFailure(
            f'"{" ".join(words)}" is not one thing: write [KIND] NAME, such as cluster north', Exit.USAGE
        )
    kind, name = words if len(words) == 2 else ("", words[0])
    if kind and _singular(kind) not in KINDS and kind not in _prefixes():
        near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=_ALIKE)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        raise CommandFailure(f'nothing is told of the kind "{kind}": {hint}', Exit.USAGE)
    first, _, rest = name.partition("/")
    if not kind and rest.count("/") == 1 and _singular(first) in ("workload", "queue"):
        return first, rest
    return kind, name


def _singular(kind: str) -> str:
    """Return the kind that a word of kubectl means, as far as it is a place."""
    one = kind.removesuffix("s")
    return history.PLACES.get(one.lower(), one)


def _prefixes() -> Sequence[str]:
    from controlplane.audit.local import PREFIXES

    return tuple(PREFIXES)


def _of_object(options: Options, name: str, *, lanes: bool) -> ToldStory:
    """Tell of a Workload, its job, or an object of one's own cluster."""
    from controlplane.audit.answer import lanes_of_workload, timeline_of
    from controlplane.cli.own_cluster_history import narrated
    from controlplane.controllers.multikueue.hosting import reading_policy

    if (local := narrated(options, name)) is not None:
        return _with_lanes(options, *local)
    with history.open_reader(options) as reader:
        found = history.find_story(reader, name)
        policy, settings = history.policy_in_force(options, reader), options.settings()
        entries = timeline_of(reader, policy, found, lambda said: reading_policy(settings, said))
        if found.quota and not found.workload:  # no copies, and so no clusters, are known of it
            return _with_lanes(options, found, entries)
        drawn = lanes_of_workload(reader, found) if lanes else []
        return ToldStory(found.workload or name, found, entries, drawn, _head(reader, entries))


def _with_lanes(options: Options, found: Found, entries: Sequence[TimelineEntry]) -> ToldStory:
    """Tell of moments with a lane for each cluster."""
    from controlplane.audit.lanes import lanes_of
    from controlplane.controllers.connectivity.events import MANAGEMENT

    drawn = lanes_of((entry.cluster or MANAGEMENT, entry) for entry in entries if entry.noteworthy)
    with history.open_reader(options) as reader:
        return ToldStory(found.stream, found, entries, drawn, _head(reader, entries))


def _of_place(options: Options, kind: str, name: str) -> ToldStory:
    """Tell of a cluster, a queue or a node."""
    from controlplane.audit.find import Found

    with history.open_reader(options) as reader:
        story = _story(reader, kind, name)
        if story is None and not history.log_was_named(options):
            reader, story = _elsewhere(reader, kind, name)
        if story is None:
            raise CommandFailure(missing(reader, kind, name), Exit.NOT_FOUND)
        return ToldStory(
            story.stream, Found(story.stream, []), story.entries, story.lanes, _head(reader, story.entries)
        )


def _story(reader: LogReader, kind: str, name: str) -> Story | None:
    from controlplane.audit import places

    ask = {"cluster": places.cluster_story, "queue": places.queue_story, "node": places.node_story}[kind]
    return ask(reader, name)


def _elsewhere(reader: LogReader, kind: str, name: str) -> tuple[LogReader, Story | None]:
    """Return the story of a thing that one other log of the database has, such as a scheduler's, which is then named;
    `CommandFailure` if several have it.
    """
    from controlplane.audit.reads import LogReader

    others = [LogReader(reader.connection, log) for log in reader.logs()[:_LOGS] if log != reader.log]
    found = [(other, story) for other in others if (story := _story(other, kind, name)) is not None]
    if not found:
        return reader, None
    if len(found) > 1:
        which = ", ".join(other.log for other, _ in found)
        first = f"there is no {kind} {name} in the log {reader.log}"
        raise CommandFailure(f"{first}; {which} have it: choose with --log", Exit.NOT_FOUND)
    aside(f"From the log {found[0][0].log}.")
    return found[0]


def missing(reader: LogReader, kind: str, name: str) -> str:
    """Return that there is no such cluster, queue or node, and what may have been meant."""
    from controlplane.audit.places import known

    first = f"there is no {kind} {name} in the log {reader.log}"
    if empty := history.is_empty(reader):
        return f"{first}: {empty}"
    names = known(reader, kind)
    near = difflib.get_close_matches(name, names, n=_NEAREST, cutoff=_ALIKE)
    if near:
        return f"{first}; did you mean {' or '.join(near)}?"
    others = [log for log in reader.logs() if log != reader.log]
    hint = f"; other logs of this database are {', '.join(others)}: choose one with --log" if others else ""
    return f"{first}{hint}"


def _head(reader: LogReader, entries: Sequence[TimelineEntry]) -> datetime:
    """Return when the newest event of the log was recorded."""
    from controlplane.audit.reads import Filter

    newest = [one.recorded_at for one in reader.events(Filter(), limit=1, newest=True)]
    return max([*newest, *(entry.at for entry in entries[-1:])], default=reader.clock())
