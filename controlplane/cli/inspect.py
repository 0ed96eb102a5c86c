"""`controlplane inspect POSITION`: an event, the state before and after it, what was decided on it, and what came of
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import place
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.events import COLUMNS
from controlplane.cli.events import plain as event_plain
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, log_option, open_reader, policy_in_force, stamp
from controlplane.cli.options import LARGEST, Options, Whole
from controlplane.cli.output import dump, line, table

if TYPE_CHECKING:
    from controlplane.audit.inspect import Inspection
    from controlplane.audit.reads import LogReader
    from controlplane.audit.states import StateChange
    from controlplane.log.event import Recorded

REQUESTS = ("decided at", "action", "to", "outcome", "settled by", "error")


@click.command(cls=Verb)
@click.argument("position", type=Whole(1, LARGEST), metavar="POSITION")
@click.option("--diff", "only_changes", is_flag=True, help="Of the state, show only the fields that changed.")
@log_option
@click.pass_obj
def inspect(options: Options, position: int, only_changes: bool) -> None:
    """Show an event, the state of its stream before and after it, and what followed.

    The state is made as the service makes it, by folding the stream's events.
    What followed are the events that name this one as their cause, and of
    those that mean a write what became of it.

    \b
    With -o json or yaml, one object:
      event, causes (the nearest first), followed: as in `controlplane events`
      before, after (the state), or with --diff changes: path, before, after
      left_alone (why the stream could not be folded; "" if it could)
      requests: position, cluster, action, target, outcome, settled_by, error
    """
    from controlplane.audit.inspect import inspect as ask
    from controlplane.audit.states import changes

    with open_reader(options) as reader:
        reader.until = position  # the settings in force are those of that time
        policy = policy_in_force(options, reader)
        reader.until = None
        found = ask(reader, policy, position)
        if found is None:
            raise CommandFailure(_missing(reader, position), Exit.NOT_FOUND)
    changed = changes(found.before, found.after)
    if options.output == "table":
        _print(found, changed, only_changes=only_changes)
        return
    state = (
        {"changes": [change._asdict() for change in changed]}
        if only_changes
        else {"before": found.before, "after": found.after}
    )
    value = {
        "event": event_plain(found.recorded),
        "causes": [event_plain(one) for one in found.causes],
        **state,
        "left_alone": found.left_alone,
        "followed": [event_plain(one) for one in found.followed],
        "requests": found.requests,
    }
    dump(options.output, value)


def _missing(reader: LogReader, position: int) -> str:
    from controlplane.audit.archived import archived_position

    empty = is_empty(reader)
    if empty:
        return f"there is no position {position}: {empty}"
    if archived := archived_position(reader, position):
        return archived
    return f"there is no position {position} in the log {reader.log}, which ends at {reader.head()}"


def _print(found: Inspection, changed: list[StateChange], *, only_changes: bool) -> None:
    event = event_plain(found.recorded)
    because = f" ({event['reason']})" if event["reason"] else ""
    where = f" on {place(event['cluster'])}" if event["cluster"] else ""
    line(f"{event['position']}  {stamp(event['at'])}  {event['stream']}, version {event['version']}")
    line(f"{event['type']}{because}{where}: {event['what']}")
    _section("It rests on", found.causes)
    if found.left_alone:
        line(f"\nIts stream cannot be folded up to it: {found.left_alone}".strip())
    elif only_changes:
        _changes(changed)
    else:
        _state("State before it", found.before)
        _state("State after it", found.after)
    if not only_changes and not found.left_alone:
        _changes(changed)
    _section("Decided on it, or caused by it", found.followed)
    if found.requests:
        click.echo("\nRequests")
        rows = [(r.position, r.action, r.target, r.outcome, r.settled_by or "", r.error) for r in found.requests]
        table(REQUESTS, rows)


def _section(title: str, events: list[Recorded]) -> None:
    if events:
        click.echo(f"\n{title}")
        table(COLUMNS, [_row(event_plain(one)) for one in events])


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    at, cluster = stamp(one["at"]), place(one["cluster"])
    return one["position"], at, one["stream"], one["type"], one["reason"], cluster, one["what"]


def _state(title: str, state: dict[str, Any]) -> None:
    import yaml

    click.echo(f"\n{title}")
    if not state:
        line("  (nothing)")
        return
    for text in yaml.safe_dump(state, sort_keys=False, allow_unicode=True, width=1000).splitlines():
        line(f"  {text}")


def _changes(changed: list[StateChange]) -> None:
    click.echo("\nChanged" if changed else "\nNothing of its state changed.")
    for change in changed:
        line(f"  {change.path}: {_value(change.before)} -> {_value(change.after)}")


def _value(value: Any) -> str:
    import msgspec

    return "nothing" if value is None else msgspec.json.encode(value).decode()
