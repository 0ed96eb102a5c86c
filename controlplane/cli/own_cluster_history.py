"""`why` and `timeline` of objects of one's own cluster: `pod/NS/NAME`, `podgroup/NS/NAME`, `candidate/NS/NAME`,
`pipelinerun/NS/NAME`.

In: what was typed. Out: the answer, or None where something else is meant: a Workload or a job. A scheduler keeps a log
of its own: what the log that is read has not, and one other of the database has, is told from that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.history import go_back, is_empty, log_was_named, open_reader, split
from controlplane.cli.options import Options
from controlplane.cli.output import aside

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.find import Found
    from controlplane.audit.reads import LogReader
    from controlplane.audit.timeline import TimelineEntry
    from controlplane.runtime.explanation import Explanation
    from controlplane.runtime.stories import ObjectHistory


def explained(options: Options, text: str, at: datetime | None = None) -> tuple[str, Explanation] | None:
    """Return stream and explanation of an object of one's own cluster; `CommandFailure` (exit code 5) if the log has
    none.
    """
    from controlplane.audit.local import explain_history

    found = _find(options, text, at)
    return None if found is None else (found.stream, explain_history(found))


def narrated(options: Options, text: str) -> tuple[Found, list[TimelineEntry]] | None:
    """Return streams and moments of an object of one's own cluster; `CommandFailure` (exit code 5) if the log has
    none.
    """
    from controlplane.audit.find import Found
    from controlplane.audit.local import history_moments

    found = _find(options, text)
    return None if found is None else (Found(found.stream, []), history_moments(found))


def _find(options: Options, text: str, at: datetime | None = None) -> ObjectHistory | None:
    from controlplane.audit.local import PREFIXES, history_of, places

    prefix, _, rest = text.partition("/")
    kind = PREFIXES.get(prefix, "")
    if not kind or "/" not in rest:
        return None
    namespace, name = split(rest)
    with open_reader(options) as reader:
        if at is not None:  # what is asked for may be in another log
            go_back(reader, at, may_be_empty=True)
        found = history_of(reader, kind, namespace, name)
        if found is not None:
            return found
        elsewhere = reader.logs(*places(kind, namespace, name))
        if len(elsewhere) != 1 or log_was_named(options):
            raise CommandFailure(_missing(reader, kind, namespace, name, elsewhere), Exit.NOT_FOUND)
    with open_reader(options, elsewhere[0], at) as other:
        found = history_of(other, kind, namespace, name)
    if found is None:
        options.more["database.log"] = (elsewhere[0], "the log that has it")
    aside(f"From the log {elsewhere[0]}.")
    return found


def _missing(reader: LogReader, kind: str, namespace: str, name: str, elsewhere: list[str]) -> str:
    """Return that there is no such object, and what may have been meant."""
    first = f"there is no {kind} {namespace}/{name} in the log {reader.log}"
    if elsewhere:
        return f"{first}; {', '.join(elsewhere)} {'has' if len(elsewhere) == 1 else 'have'} it: choose with --log"
    if kind == "podgroup" and reader.streams("sourcegroup", namespace=namespace, name=name):
        return (
            f"{first}, whose controller podgroups did not run; the pods of it that are placed on other clusters are in"
            f" `controlplane candidates list -n {namespace}`, with what the group waits for"
        )
    from controlplane.audit.local import ABSENT, near, near_elsewhere

    named = " or ".join(near(reader, kind, namespace, name))
    if not named:
        found = near_elsewhere(reader, kind, namespace, name)
        named = " or ".join(f"{' or '.join(names)} of the log {log}" for log, names in found.items())
    return f"{first}; did you mean {named}?" if named else f"{first}: {is_empty(reader) or ABSENT[kind]}"
