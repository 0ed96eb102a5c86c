"""What the verbs that read the history share: a reader of the log, the way from a name to its events, and times as
people read them.

In: the options, and NAMESPACE/NAME as it was typed. Out: a `LogReader`, or a `CommandFailure` with the sentence that
says what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock
from controlplane.cli.archived import refuse_archived_stream, refuse_archived_time
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.options import Options, current
from controlplane.cli.output import aside

if TYPE_CHECKING:
    from controlplane.audit.find import Found
    from controlplane.audit.reads import LogReader
    from controlplane.controllers.multikueue.context import MultiKueuePolicy
    from controlplane.controllers.quota.engine.settings import EngineSettings
    from controlplane.log.event import Recorded
    from controlplane.runtime.stories import ObjectHistory


def log_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the option `--log NAME`: which log of the database is read."""

    def remember(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.ensure_object(Options).more["database.log"] = (value, "--log")

    text = "The log to read, such as a scheduler's; database.log otherwise."
    return click.option("--log", "log_name", metavar="NAME", help=text, expose_value=False, callback=remember)(verb)


def log_was_named(options: Options) -> bool:
    """Whether somebody said by `--log` which log is meant."""
    return "database.log" in options.more


def open_reader(options: Options, log: str = "", at: datetime | None = None) -> LogReader:
    """Open a log for reading, that of the settings if none is named; psycopg's errors become exit code 4.

    With `at`, as it was at that time: `CommandFailure` if that is to come, or the log begins later."""
    from controlplane.audit.reads import LogReader

    # What psycopg has to say of a connection that broke would stand among what a command says.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    settings = options.settings()
    reader = LogReader.connect(options.database_url(), log=log or settings.database.log, role=settings.database.role)
    if at is not None:
        try:
            go_back(reader, at)
        except BaseException:
            reader.close()
            raise
    return reader


def go_back(reader: LogReader, at: datetime, *, may_be_empty: bool = False) -> None:
    """Have a log read as it was at a time; `CommandFailure` if that is to come, or the log begins later."""
    now = reader.clock()
    if at > now:
        raise CommandFailure(f"{clock(at)} UTC is to come: it is {clock(now)} UTC by the database", Exit.USAGE)
    refuse_archived_time(reader, at)
    if reader.read_at(at) or may_be_empty:
        return
    reader.until = None
    begins = next((one.recorded_at for one in first_event(reader)), None)
    begun = f": it begins at {clock(begins)} UTC" if begins is not None else f": {is_empty(reader)}"
    raise CommandFailure(f"the log {reader.log} has nothing of {clock(at)} UTC{begun}", Exit.NOT_FOUND)


def first_event(reader: LogReader) -> list[Recorded]:
    """Return the first event of a log, in a list that is empty if there is none."""
    from controlplane.audit.reads import Filter

    return list(reader.events(Filter(), limit=1))


def policy_in_force(options: Options, reader: LogReader) -> MultiKueuePolicy:
    """Return what the service of a log decides by; where the log does not say, what these settings say, and that it is
    so.
    """
    from controlplane.audit.leading import in_force
    from controlplane.controllers.multikueue.hosting import reading_policy

    said = in_force(reader)
    if said is None and reader.log in reader.logs():
        text = (
            "The log does not say by which settings it is led: graces and policies are shown by the settings of this"
            " program."
        )
        aside(text)
    return reading_policy(options.settings(), said)


def engine_settings_in_force(options: Options, reader: LogReader) -> EngineSettings:
    """Return how the service of a log decides about quota; where the log does not say, what these settings say."""
    from controlplane.audit.leading import with_quota_in_force
    from controlplane.controllers.quota.admission.hosting import engine_settings

    return engine_settings(with_quota_in_force(options.settings(), reader))


def tell_gap(reader: LogReader) -> None:
    """Say beside an answer since when nothing is recorded, if that is so."""
    from controlplane.audit.leading import not_recorded

    if gap := not_recorded(reader):
        aside(gap)


def is_empty(reader: LogReader) -> str:
    """Return why a log has nothing to show, "" if it has events: to be said beside a result that may be empty for
    that.
    """
    others = reader.logs()
    if reader.log in others:
        return ""
    known = f"; the logs of this database are {', '.join(others)}: choose one with --log" if others else ""
    return f"the log {reader.log} is empty{known}"


def nearest_namespaces(reader: LogReader, namespace: str | None, kind: str = "workload") -> str:
    """Return after a space which namespaces may have been meant, as a question; "" if none is near, or this one has
    Workloads, or streams of another kind.
    """
    import difflib

    known = sorted({stream.split("/")[1] for stream in reader.streams(kind)}) if namespace else []
    near = difflib.get_close_matches(namespace or "", known, n=3, cutoff=0.5) if namespace not in known else []
    return f" Did you mean {' or '.join(near)}?" if near else ""


def nearest_places(reader: LogReader, cluster: str | None, queue: str | None) -> str:
    """Return after a space which cluster or LocalQueue may have been meant, as a question; "" if none is near, or the
    log knows this one.
    """
    import difflib

    if cluster is not None:
        wanted, known = cluster, [stream.partition("/")[2] for stream in reader.streams("cluster")]
    elif queue is not None:
        wanted, known = queue, [stream.partition("/")[2] for stream in reader.streams("localqueue")]
        known += [name.partition("/")[2] for name in known]
    else:
        return ""
    near = difflib.get_close_matches(wanted, sorted(set(known)), n=3, cutoff=0.5) if wanted not in known else []
    return f" Did you mean {' or '.join(near)}?" if near else ""


def is_on(one: Mapping[str, Any], cluster: str | None) -> bool:
    """Whether a Workload, as JSON has it, is on a cluster; None is any."""
    return cluster is None or one["cluster"] == cluster


def is_in(one: Mapping[str, Any], queue: str | None) -> bool:
    """Whether a Workload is in a LocalQueue: its name, or NAMESPACE/NAME; None is any."""
    return queue is None or queue in (one["queue"], f"{one['namespace']}/{one['queue']}")


PLACES = {
    "cluster": "cluster", "multikueuecluster": "cluster", "mkc": "cluster", "node": "node",
    "queue": "queue", "clusterqueue": "queue", "cq": "queue", "localqueue": "queue", "lq": "queue",
}  # fmt: skip
"""What may be typed for a thing of which a story is told that is no Workload, in the singular, and what it means."""


def _of_a_place(text: str) -> str:
    """Return, after a semicolon, which verb tells of a thing that is no Workload; "" if none was named."""
    first, _, name = text.partition("/")
    kind = PLACES.get(first.lower().removesuffix("s"))
    return f"; of a {kind} `controlplane timeline {kind} {name}` tells" if kind and name else ""


def split(text: str) -> tuple[str, str]:
    """Return namespace and name of NAMESPACE/NAME."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise CommandFailure(
            f'"{text}" is not a Workload or a job: write NAMESPACE/NAME, such as default/train, '
            "or KIND/NAMESPACE/NAME, such as pod/default/web; -n says the namespace of a name without one"
            f"{_of_a_place(text)}",
            Exit.USAGE,
        )
    return namespace, name


_WORKLOAD = ("workload", "workloads", "wl", "job", "jobs")


def full_name(options: Options, text: str) -> str:
    """Return [KIND/]NAMESPACE/NAME of what was typed, with the namespace of `-n` where it has none.

    A KIND that only says that it is a Workload or a job is left out. Usage error if `-n` is another namespace."""
    from controlplane.audit.local import PREFIXES

    parts = text.split("/")
    if len(parts) == 3 and parts[0] in _WORKLOAD:
        parts = parts[1:]
    namespace = options.namespace
    if namespace is None or not all(parts):
        return "/".join(parts)
    kind = [parts.pop(0)] if len(parts) > 1 and parts[0] in (*_WORKLOAD, *PREFIXES) else []
    if len(parts) == 2 and parts[0] != namespace:
        raise CommandFailure(
            f'-n says namespace {namespace}, and "{text}" says {parts[0]}: leave one of the two out', Exit.USAGE
        )
    return "/".join([*(one for one in kind if one not in _WORKLOAD), namespace, parts[-1]])


def find_pod(reader: LogReader, namespace: str, name: str) -> ObjectHistory:
    """Return the history of a source pod; `CommandFailure` (exit code 5) if the log has none."""
    from controlplane.controllers.candidates.source.explain import find

    found = find(reader, "pod", namespace, name)
    if found is not None:
        return found
    near, empty = _near_pods(reader, namespace, name), is_empty(reader)
    hint = f": {empty}" if empty else f"; did you mean {' or '.join(near)}?" if near else ""
    raise CommandFailure(
        f"there is no source pod {namespace}/{name} in the log {reader.log}"
        + (hint or f": only pods with the schedulerName of {_SCHEDULER} are placed on other clusters"),
        Exit.NOT_FOUND,
    )


_SCHEDULER = "candidates.schedulerName"


def _near_pods(reader: LogReader, namespace: str, name: str) -> list[str]:
    """Return up to three source pods that may have been meant: whose candidate is called so, near names, other
    namespaces."""
    import difflib

    known = [stream.partition("/")[2] for stream in reader.streams("sourcepod")]
    whose = f"{namespace}/{name.rpartition('-')[0]}"
    here = [one.partition("/")[2] for one in known if one.partition("/")[0] == namespace]
    near = [f"{namespace}/{one}" for one in difflib.get_close_matches(name, here, n=3, cutoff=0.6)]
    others = [one for one in known if one.partition("/")[2] == name]
    return list(dict.fromkeys([*([whose] if whose in known else []), *others, *near]))[:3]


_SHOWN = "; `controlplane workloads --all` shows which there are (a job without a queue is not recorded)"


def find_story(reader: LogReader, text: str) -> Found:
    """Return the streams of the Workload or job that was named; `CommandFailure` (exit code 5) with the nearest
    names.
    """
    from controlplane.audit.find import find, nearest

    refuse_unplaced(reader, text)
    namespace, name = split(text)
    found = find(reader, namespace, name)
    if found is not None:
        refuse_archived_stream(reader, f"{namespace}/{name}", found.streams)
        return found
    when = _not_yet(reader, namespace, name)
    if when:
        raise CommandFailure(when, Exit.NOT_FOUND)
    near = nearest(reader, namespace, name)
    empty = is_empty(reader)
    hint = f"; did you mean {' or '.join(near)}?" if near else _SHOWN
    hint = f": {empty}" if empty else _of_a_place(text) or hint
    if not near and reader.streams("pod", "candidate", "sourcepod", "member", namespace=namespace, name=name):
        hint = f"; did you mean pod/{namespace}/{name}?"
    from controlplane.audit.leading import known_until

    said = f"there is no Workload or job {namespace}/{name} in the log {reader.log}{hint}"
    until = known_until(reader)
    raise CommandFailure(said + (until.removeprefix(".") if said.endswith("?") else until), Exit.NOT_FOUND)


def refuse_unplaced(reader: LogReader, text: str) -> None:
    """Raise `CommandFailure` (exit code 2) for a name without a namespace that the log has in one, or that is a
    cluster's: it says which."""
    if "/" in text or not text:
        return
    places = {tuple(stream.split("/")[-2:]) for stream in reader.streams("workload", "job", name=text)}
    if places:
        near = " or ".join("/".join(place) for place in sorted(places)[:3])
        raise CommandFailure(f'"{text}" is without a namespace: did you mean {near}?', Exit.USAGE)
    if reader.streams("cluster", name=text):
        told = f"`controlplane describe cluster {text}` and `controlplane timeline cluster {text}` tell of it"
        raise CommandFailure(f'"{text}" is a cluster, not a Workload or a job: {told}', Exit.USAGE)


def _not_yet(reader: LogReader, namespace: str, name: str) -> str:
    """Return that a Workload or job came after the time at which the log is read; "" if it did not."""
    if reader.at is None:
        return ""
    from controlplane.audit.find import find

    until, reader.until = reader.until, None
    found = find(reader, namespace, name)
    began = reader.first_seen(found.streams) if found is not None else {}
    reader.until = until
    if not began:
        return ""
    return (
        f"{namespace}/{name} was not there at {clock(reader.at)} UTC: it was first seen at "
        f"{clock(min(began.values()))} UTC"
    )


def stamp(at: datetime | None) -> str:
    """Return a time as tables have it: as `clock`, in UTC or, with `--local-time`, in the zone of this machine."""
    return clock(at.astimezone() if at is not None and current().local_time else at)
