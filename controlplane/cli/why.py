"""`controlplane why [pod/]NAMESPACE/NAME`: why a Workload, or a pod, is where it is: one sentence, and the events that
prove it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import place
from controlplane.cli import history, times
from controlplane.cli.errors import Exit
from controlplane.cli.following import document, follow, quietly, refuse_order, watch_option
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, named, names_of
from controlplane.cli.options import table as table_options
from controlplane.cli.output import dump, line, table

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.quota_past import WaitInterval
    from controlplane.audit.reads import LogReader
    from controlplane.log.event import Recorded
    from controlplane.runtime.explanation import Explanation, Statement

STATEMENT_COLUMNS = ("at (UTC)", "what became of it", "proved by")
COLUMNS = ("position", "at (UTC)", "type", "reason", "cluster", "what")
WAITED_COLUMNS = ("waited from (UTC)", "until (UTC)", "for", "reason", "clusterqueue", "missing", "others")
_MOST_WAITS = 20
_OF_WORKLOADS = ("workload/", "admission/workload/")


@click.command(cls=Verb)
@click.argument("name", metavar="[KIND/]NAMESPACE/NAME", shell_complete=names_of("workloads"))
@click.option("--at", "moment", metavar="TIME", help="As it was at a time: 2026-01-31T13:00:00Z, or 6h ago.")
@watch_option("Then print the answer again whenever it is another one, until Ctrl-C.")
@named
@table_options
@history.log_option
@click.pass_obj
def why(options: Options, name: str, moment: str | None, watch: bool) -> int:
    """Say why a Workload is where it is, waits, or was taken back.

    While nobody records, it says since when, and up to where it knows.
    NAME may be that of the Workload or of its job. With pod/ before it, it is
    said where a pod is placed, or whose PodGroup it is in; with podgroup/ or
    pipelinerun/, why a PodGroup is in its phase, and a run's pods on a node.

    Of one that has ended it is said where it ran and why there, what was taken
    from it and when, how long it waited and ran, and whether it was ever on
    two clusters at once, each with the positions of the events that prove it.

    With --at it is answered as it would have been at that time: by the events
    recorded until then and the settings in force.

    \b
    With -o json or yaml, one object (with --watch one a line, or one YAML
    document each):
      workload (stream), state, cluster, waits_for, sentence,
      quota (of one that waits for it where quota.mode is builtin, else
      null): cluster_queue, position, pending, ahead, tried, inactive, inadmissible,
      uncovered, used, flavors (with resources: wanted, free, missing, most, never,
      holders; preemptible, would_end), estimate (of when it gets quota: at,
      seconds, late, late_seconds, reason, draws, bounded, checks, samples)
      waited (how it waited for that quota): since, until, reason, message,
      cluster_queue, missing, victims, preemptor, position
      events: position, at, type, reason, cluster, what, data
      statements (of what has ended): about, text, cluster, attempt, at,
      seconds (null, or how long), positions
    """
    at = times.moment(moment, "--at") if moment is not None else None
    full = history.full_name(options, name)
    if watch:
        if at is not None:
            raise click.UsageError("--at is about the past, and --watch about what comes: leave one of the two out")
        return _watch(options, full)
    workload, explanation = ask(options, full, at)
    quota = _quota(options, workload, explanation, at)
    waited = _waited(options, workload, at)
    if options.output != "table":
        dump(options.output, _value(workload, explanation, quota, waited))
    else:
        _print(explanation, quota, waited)
    return Exit.OK


def _watch(options: Options, name: str) -> int:
    """Print the answer, and each other one that comes, until Ctrl-C."""
    refuse_order(options)
    last: list[tuple[str, ...]] = [()]
    looks = itertools.count()

    def look(_reader: LogReader) -> None:
        with quietly(number := next(looks)):
            workload, explanation = ask(options, name)
            quota = _quota(options, workload, explanation)
            waited = _waited(options, workload)
        # An estimate is another one with each look, as long as nothing happens.
        said = (
            explanation.standing.word,
            explanation.sentence,
            *_sentences({**quota, "estimate": None} if quota else None),
        )
        if said == last[0]:
            return
        last[0] = said
        if options.output != "table":
            document(options.output, _value(workload, explanation, quota, waited))
        elif number:
            click.echo()
        if options.output == "table":
            _print(explanation, quota, waited)

    return follow(options, history.open_reader(options), look)


def _quota(
    options: Options, workload: str, explanation: Explanation, at: datetime | None = None
) -> dict[str, Any] | None:
    """Return why a Workload waits for quota, where this service decides on it."""
    from controlplane.audit.quota_wait import answer
    from controlplane.clock import SystemClock

    if explanation.standing.word != "Pending" or not workload.startswith(_OF_WORKLOADS):
        return None
    namespace, name = workload.split("/")[-2:]
    with history.open_reader(options, at=at) as reader:
        return answer(
            reader, history.engine_settings_in_force(options, reader), namespace, name, at or SystemClock().now()
        )


def _waited(options: Options, workload: str, at: datetime | None = None) -> list[WaitInterval]:
    """Return how a Workload waited for quota, where this service decides on it."""
    from controlplane.audit.quota_past import intervals
    from controlplane.audit.quota_story import OF_WORKLOAD
    from controlplane.audit.reads import Filter

    if not workload.startswith(_OF_WORKLOADS):
        return []
    namespace, name = workload.split("/")[-2:]
    with history.open_reader(options, at=at) as reader:
        return intervals(reader.events(Filter(streams=[f"{OF_WORKLOAD}{namespace}/{name}"])))


def _sentences(quota: dict[str, Any] | None) -> list[str]:
    from controlplane.audit.quota_wait import sentences

    return list(sentences(quota)) if quota is not None else []


def _value(
    workload: str, explanation: Explanation, quota: dict[str, Any] | None, waited: Sequence[WaitInterval]
) -> dict[str, Any]:
    """Return the answer as plain values."""
    from controlplane.audit.quota_past import plain as plain_interval
    from controlplane.audit.words import fields_of, reason_of, type_of, what

    stands = explanation.standing
    return {
        "workload": workload,
        "state": stands.word,
        "cluster": stands.cluster,
        "waits_for": stands.waits_for,
        "sentence": explanation.sentence,
        "quota": quota,
        "waited": [plain_interval(one) for one in waited],
        "events": [
            {
                "position": recorded.position,
                "at": recorded.recorded_at,
                "type": type_of(recorded),
                "reason": reason_of(recorded),
                "cluster": recorded.cluster,
                "what": what(recorded.event),
                "data": fields_of(recorded.event),
            }
            for recorded in explanation.events
        ],
        "statements": [plain(statement) for statement in explanation.statements],
    }


def _print(explanation: Explanation, quota: dict[str, Any] | None, waited: Sequence[WaitInterval]) -> None:
    line(f"{explanation.standing.word}: {explanation.sentence}")
    for sentence in _sentences(quota):
        line(sentence)
    _print_waited(waited)
    if explanation.statements:
        click.echo()
        table(STATEMENT_COLUMNS, [_row(statement) for statement in explanation.statements])
    if explanation.events:
        click.echo()
        table(COLUMNS, [_event(recorded) for recorded in explanation.events])


def _print_waited(waited: Sequence[WaitInterval]) -> None:
    """Print how a Workload waited for quota: the newest intervals, and how many there were before."""
    from controlplane.audit import quota_past

    told = quota_past.worth_telling(waited)
    if not told:
        return
    click.echo()
    if len(told) > _MOST_WAITS:
        line(f"It waited in {len(told)} intervals, of which these are the newest; -o json has all.")
    table(WAITED_COLUMNS, [_interval(one) for one in told[-_MOST_WAITS:]])


def _interval(one: WaitInterval) -> tuple[object, ...]:
    from controlplane.audit import quota_past

    cells = one.reason or quota_past.NOT_TRIED, one.cluster_queue, quota_past.missing(one), quota_past.others(one)
    return history.stamp(one.since), history.stamp(one.until), quota_past.lasted(one), *cells


def _event(recorded: Recorded) -> tuple[object, ...]:
    from controlplane.audit.words import reason_of, type_of, what

    at, where = history.stamp(recorded.recorded_at), place(recorded.cluster)
    return recorded.position, at, type_of(recorded), reason_of(recorded), where, what(recorded.event)


def plain(statement: Statement) -> dict[str, Any]:
    """Return a statement as plain values."""
    return {
        "about": statement.about,
        "text": statement.text,
        "cluster": statement.cluster,
        "attempt": statement.attempt or None,
        "at": statement.events[0].recorded_at,
        "seconds": statement.seconds,
        "positions": [recorded.position for recorded in statement.events],
    }


def _row(statement: Statement) -> Sequence[object]:
    proof = ", ".join(str(recorded.position) for recorded in statement.events)
    return history.stamp(statement.events[0].recorded_at), statement.text, proof


def ask(options: Options, name: str, at: datetime | None = None) -> tuple[str, Explanation]:
    """Return the stream of the Workload that was named ("" if the job has none) and the explanation, as of a time if
    one is given.
    """
    from controlplane.audit.answer import answer
    from controlplane.cli.own_cluster_history import explained
    from controlplane.clock import SystemClock

    if (local := explained(options, name, at)) is not None:
        return local
    with history.open_reader(options, at=at) as reader:
        found = history.find_story(reader, name)
        policy = history.policy_in_force(options, reader)
        history.tell_gap(reader)
        return found.stream, answer(reader, policy, found, at or SystemClock().now())
