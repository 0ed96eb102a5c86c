"""`docs/reference/events.md` and `scheduler-events.md`, written from the manifests of the controllers.

In: `python -m controlplane.audit.reference [scheduler]`; the event classes with their docstrings and fields, the
streams, the reasons. Out: Markdown. A test compares the pages with it.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from controlplane.controllers.manifests import SCHEDULER, SERVICE
from controlplane.log.event import Event
from controlplane.runtime.manifest import Manifest

_HEADS = {
    "service": """# Events and reasons

<!-- Written by `python -m controlplane.audit.reference`. Change the event classes or the manifests instead. -->

Every event has a type (below), a `schema` (the number of its shape), a stream, and its fields as JSON in `data`, where
a field that has its default is left out. [SQL](sql.md) says how to read them; `controlplane events --follow` shows them
as they come. Those of a scheduler's own log are on [a page of their own](scheduler-events.md).
""",
    "scheduler": """# Events and reasons of the scheduler

<!-- Written by `python -m controlplane.audit.reference scheduler`. Change event classes or manifests instead. -->

What `controlplane scheduler run` records, in a log of its own (`scheduler.log`). Nodes, other schedulers' pods and
everything else that a cycle looks at are not in it ([why](../decisions/0018-what-a-scheduler-records.md)). Events of
the connection (`ClusterConnected` and the others) are those of [the service](events.md). `controlplane why`, `timeline`
and `events` read it with `--log`: [how](../howto/run-a-scheduler.md#ask-why).
""",
}
_DECISIONS = """
Each decision carries a `reason`, in `data` and in the column of that name: a member of a closed set. Most mean a write
to one object. Sentences for people are made of the reason and the event's fields: `controlplane why`.
"""
_MANIFESTS = {"service": SERVICE, "scheduler": tuple(one for one in SCHEDULER if one not in SERVICE)}


def reference(log: str = "service") -> str:
    """Return the page of a sort of log, `service` or `scheduler`, in Markdown."""
    manifests = _MANIFESTS[log]
    streams = (f"| `{pattern}` | {what} |\n" for one in manifests for pattern, what in one.streams.items())
    head = [_HEADS[log], "\n## Streams\n\n| stream | the history of |\n|---|---|\n", *streams, _DECISIONS]
    return "".join([*head, *(part for manifest in manifests for part in _section(manifest))])


def _section(manifest: Manifest) -> Iterable[str]:
    """Yield what there is to say of one manifest."""
    yield f"\n## {manifest.title}\n\n"
    if manifest.intro:
        yield f"{manifest.intro}\n\n"
    yield _table(("event", "says"), ((event, _doc(event)) for event in manifest.others()))
    if decisions := manifest.decisions():
        yield f"\n### Decisions: {manifest.title}\n\n"
        rows = ((event, _doc(event), _write(manifest, event)) for event in decisions)
        yield _table(("event", "decides", "write"), rows)
    if manifest.reasons:
        yield f"\n### Reasons: {manifest.title}\n\n| reason | because |\n|---|---|\n"
        yield from (f"| `{reason}` | {sentence.means} |\n" for reason, sentence in manifest.reasons.items())
    yield f"\n### Fields: {manifest.title}\n\n"
    yield from map(_fields, manifest.events)


def _table(heads: Sequence[str], rows: Iterable[tuple[type[Event], *tuple[str, ...]]]) -> str:
    lines = [f"| {' | '.join(heads)} |\n", f"|{'---|' * len(heads)}\n"]
    lines += [f"| `{event.__name__}` | {' | '.join(cells)} |\n" for event, *cells in rows]
    return "".join(lines)


def _doc(event: type[Event]) -> str:
    return " ".join((inspect.getdoc(event) or "").split()).replace("|", "\\|")


def _write(manifest: Manifest, event: type[Event]) -> str:
    """Return what a decision writes to; "none" if it means no write."""
    if manifest.write is None or not issubclass(event, manifest.write):
        return "none"
    return manifest.writes.get(event, "") or str(getattr(event, "WHERE", "") or getattr(event, "WHAT", "")) or "yes"


def _fields(event: type[Event]) -> str:
    named = ", ".join(f"`{field.encode_name}` {_shape(field.type)}" for field in msgspec.structs.fields(event))
    return f"- `{event.__name__}`: {named or 'none'}\n"


def _shape(kind: object) -> str:
    """Return a field's type in JSON's words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return _shape(next(one for one in arguments if one is not types.NoneType))
    if origin is list:
        return f"list of {_shape(arguments[0])}"
    if origin is dict:
        return "object"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "reason" if kind.__name__.endswith("Reason") else "text"
    names = {"str": "text", "int": "number", "bool": "true or false", "datetime": "time"}
    name = getattr(kind, "__name__", str(kind))
    return names.get(name, "object" if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else name)


if __name__ == "__main__":
    sys.stdout.write(reference(*sys.argv[1:2]))
