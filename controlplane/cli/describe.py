"""`controlplane describe KIND [NAME…]`: everything about one thing, for people, as kubectl's verb of that name has it.

In: a kind and names. Out: labels and values, tables below them, and what happened at the end, with ages; or plain
values for programs. What is told is made by `controlplane.audit.description`."""

from __future__ import annotations

import difflib
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import age, place
from controlplane.cli import history
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, current, named
from controlplane.cli.options import table as table_options
from controlplane.cli.output import aligned, dump, folded, line, visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from controlplane.audit.description import Description, Rows
    from controlplane.audit.timeline import TimelineEntry

KINDS = {
    "workload": "workload", "wl": "workload", "kwl": "workload", "job": "workload",
    **{word: kind for word, kind in history.PLACES.items() if kind != "node"},
    "candidate": "candidate", "cand": "candidate",
    "pod": "pod", "po": "pod", "podgroup": "podgroup", "pg": "podgroup", "pipelinerun": "pipelinerun",
}  # fmt: skip
"""What may be typed for a kind, and what it means; an s at the end makes no difference."""
EVENTS = 25
_NARROWEST = 60
_NONE = "<none>"


def _offer(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer kinds, and after one the names of that kind."""
    from click.shell_completion import CompletionItem

    from controlplane.cli.offered import offered

    words = context.params.get("words") or ()
    if not words:
        return [CompletionItem(kind) for kind in dict.fromkeys(KINDS.values()) if kind.startswith(incomplete)]
    kind = _kind(words[0])
    return offered(f"{kind}s", context, incomplete)


show_events_option = click.option(
    "--show-events",
    type=bool,
    default=True,
    show_default=True,
    metavar="true|false",
    help=f"What happened, the last {EVENTS} moments, below the rest.",
)
"""The option of a verb that describes: whether what happened stands below the rest."""


@click.command(cls=Verb)
@click.argument("words", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=_offer)
@show_events_option
@named
@table_options
@history.log_option
@click.pass_obj
def describe(options: Options, words: tuple[str, ...], show_events: bool) -> None:
    """Show one thing with all that is known of it: state, place, why, and what happened.

    KIND is workload (or job), cluster, queue (a ClusterQueue, or a LocalQueue
    as NAMESPACE/NAME), candidate, pod, podgroup or pipelinerun. Without a
    NAME, all clusters or Workloads that the lists have. KIND/NAME may be
    written as well.

    \b
    With -o json or yaml, one object (several if several are meant):
      workload: the fields of `workloads`, sentence, proved_by (positions)
      cluster: the fields of one of `clusters`, workloads (names)
      queue: kind, namespace, name, cluster_queue, pending … other (counts),
        of a ClusterQueue local_queues, and where quota.mode is builtin
        active, cohort, strategy, stop_policy, quota (flavor, resource,
        nominal, reserved, used, borrowed)
      others: kind, namespace, name, state, cluster, waits_for, sentence
      and events of each: position, at, cluster, what, why, reason, type
    """
    kind, names = _asked(options, words)
    found = [_described(options, kind, name) for name in names or _all(options, kind)]
    if not found:
        click.echo(f"No {kind}s found.", err=True)
    print_all(options, found, show_events, alone=len(names) == 1)


def print_all(options: Options, found: Sequence[Description], show_events: bool, *, alone: bool) -> None:
    """Print descriptions, below each other or as plain values: one object if it is `alone`."""
    if options.output != "table":
        values = [{**one.value, "events": [_plain(moment) for moment in _last(one, show_events)]} for one in found]
        dump(options.output, values[0] if alone else values)
        return
    now = _now()
    for number, one in enumerate(found):
        if number:
            click.echo("\n")
        _print(one, now, _last(one, show_events) if show_events else None)


def _kind(word: str) -> str:
    """Return the kind that a word means, "" if it means none."""
    return KINDS.get(word.lower()) or KINDS.get(word.lower().removesuffix("s"), "")


def _asked(options: Options, words: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the kind and the names that were typed; usage error for a kind that is none."""
    first, slash, rest = words[0].partition("/")
    if slash and _kind(first):
        return _kind(first), [word.partition("/")[2] if _kind(word.partition("/")[0]) else word for word in words]
    if kind := _kind(words[0]):
        return kind, list(words[1:])
    if slash and len(words) == 1 and rest:  # a name alone, as `why` takes it
        return "workload", [words[0]]
    if len(words) == 1:  # a name without its kind
        with history.open_reader(options) as reader:
            history.refuse_unplaced(reader, first)
    near = difflib.get_close_matches(first.lower(), KINDS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(dict.fromkeys(KINDS.values()))}"
    raise CommandFailure(f'there is no kind "{first}" to describe: {hint}', Exit.USAGE)


def _all(options: Options, kind: str) -> list[str]:
    """Return the names of all that the lists have of a kind; usage error where there is no list."""
    if kind not in ("workload", "cluster"):
        raise CommandFailure(f"say which {kind}: `controlplane describe {kind} NAME`", Exit.USAGE)
    with history.open_reader(options) as reader:
        if kind == "workload":
            return [stream.partition("/")[2] for stream in sorted(reader.live_workloads(options.namespace))]
        return [stream.partition("/")[2] for stream in reader.streams("cluster")]


def _described(options: Options, kind: str, name: str) -> Description:
    """Describe one thing; `CommandFailure` (exit code 5) with the nearest names if the log has none of that name."""
    from controlplane.audit import description

    if kind == "cluster":
        with history.open_reader(options) as reader:
            policy = history.policy_in_force(options, reader)
            known = f"@{name}" if name == "management" else name
            return description.cluster(reader, policy, known, _now()) or _missing(options, kind, name)
    if kind == "queue":
        if options.namespace is not None and "/" not in name:
            name = f"{options.namespace}/{name}"
        with history.open_reader(options) as reader:
            return description.queue(reader, name) or _missing(options, kind, name)
    if kind == "workload":
        with history.open_reader(options) as reader:
            found = history.find_story(reader, history.full_name(options, name))
            return description.workload(reader, history.policy_in_force(options, reader), found, _now())
    from controlplane.cli import stories, why

    full = history.full_name(options, f"{kind}/{name}")
    stream, explanation = why.ask(options, full)
    return description.other(stream, explanation, stories.told(options, [full], lanes=False).entries)


def _missing(options: Options, kind: str, name: str) -> Description:
    from controlplane.cli.stories import missing

    with history.open_reader(options) as reader:
        raise CommandFailure(missing(reader, kind, name), Exit.NOT_FOUND)


def _last(one: Description, wanted: bool) -> Sequence[TimelineEntry]:
    return [moment for moment in one.moments if moment.noteworthy][-EVENTS:] if wanted else []


def _plain(moment: TimelineEntry) -> dict[str, Any]:
    return {
        "position": moment.position,
        "at": moment.at,
        "cluster": moment.cluster,
        "what": moment.what,
        "why": moment.why,
        "reason": moment.reason,
        "type": moment.type,
    }


def _now() -> datetime:
    from controlplane.clock import SystemClock

    return SystemClock().now()


# ---------------------------------------------------------------- for people


def _print(one: Description, now: datetime, moments: Sequence[TimelineEntry] | None) -> None:
    fields = [(label, _texts(value, now)) for label, value in one.fields]
    labels = max(len(label) for label, _ in fields) + 3
    for label, texts in fields:
        _field(label, texts, labels)
    for table in one.tables:
        _below(table, now, labels)
    if moments is None:
        return
    from controlplane.audit.description import Rows

    rows = [(moment.at, place(moment.cluster), moment.what, moment.why or moment.reason) for moment in moments]
    _below(Rows(label="Events", columns=("age", "cluster", "what", "why"), rows=rows), now, labels)


def _texts(value: Any, now: datetime) -> list[str]:
    """Return the lines of a value: a list has one for each; nothing is said so."""
    if isinstance(value, datetime):
        return [f"{history.stamp(value)} {'local time' if current().local_time else 'UTC'} ({age(value, now)} ago)"]
    if isinstance(value, (list, tuple)):
        return [str(one) for one in value] or [_NONE]
    return [str(value)] if value not in (None, "") else [_NONE]


def _field(label: str, texts: Sequence[str], labels: int) -> None:
    """Print a label and its texts, each wrapped on a terminal, below each other."""
    for number, text in enumerate(texts):
        head = f"{label}:" if not number else ""
        for shown in _wrapped(visible(text), labels):
            click.echo(f"{head:{labels}}{shown}".rstrip())
            head = ""


def _wrapped(text: str, indent: int) -> list[str]:
    """Return a text in lines as wide as the terminal; whole in a pipe."""
    if not sys.stdout.isatty():
        return [text]
    return textwrap.wrap(text, _width() - indent, break_long_words=False, break_on_hyphens=False) or [""]


def _below(table: Rows, now: datetime, labels: int) -> None:
    """Print a table below its label, indented, with a line under the headings, as kubectl has it."""
    if not table.rows:
        _field(table.label, [_NONE], labels)
        return
    line(f"{table.label}:")
    cells = [[_cell(cell, now) for cell in row] for row in table.rows]
    heads = [column.replace("_", " ").title() for column in table.columns]
    if current().no_headers:
        heads, ruled = [], cells
    else:
        ruled = [["-" * len(head) for head in heads], *cells]
    shown = folded(heads, ruled, _width() - 4) if sys.stdout.isatty() else aligned(heads, ruled)
    for text in shown:
        click.echo(f"  {text}".rstrip())


def _width() -> int:
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def _cell(cell: Any, now: datetime) -> str:
    return age(cell, now) if isinstance(cell, datetime) else visible(str(cell if cell is not None else ""))
