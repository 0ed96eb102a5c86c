"""`controlplane whatif`: the recorded past once more, with other clusters, quotas or rules, over simulated clusters."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import log_option, open_reader
from controlplane.cli.log_range import LogRange, log_range, progressing, range_options, sharing
from controlplane.cli.options import Options
from controlplane.cli.output import dump
from controlplane.cli.whatif_print import show

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.reads import LogReader
    from controlplane.controllers.multikueue.context import MultiKueuePolicy
    from controlplane.controllers.quota.engine.settings import EngineSettings
    from controlplane.log.event import Recorded
    from controlplane.settings import Settings
    from controlplane.whatif.capacity import Capacities
    from controlplane.whatif.deciders import DecisionSettings
    from controlplane.whatif.history import History
    from controlplane.whatif.simulated_log import Alternative
    from controlplane.whatif.simulation import SimulationResult

_CHOICES = {"placements": "placements", "quota": "decisions about quota"}
_AGREED = ("recorded", "agree", "share", "differ")
DISPATCHERS = ("all-at-once", "incremental", "scored")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(cls=Verb)
@range_options
@click.option("--dispatcher", type=click.Choice(DISPATCHERS), help="Who nominates clusters.")
@click.option("--without", multiple=True, metavar="CLUSTER", help="Offer nothing to this cluster; may be repeated.")
@click.option("--add-cluster", "added", multiple=True, type=_FILE, metavar="FILE", help="Offer to this one as well.")
@click.option("--quota", type=_FILE, metavar="FILE", help="Other quotas, or Kueue's objects that have them.")
@click.option("--policy", "other", type=_FILE, metavar="FILE", help="Decide by the settings of this file.")
@click.option("--anyway", is_flag=True, help="Compare also if the past cannot be played again as it was.")
@log_option
@click.pass_obj
def whatif(options: Options, /, begin: str | None, end: str | None, anyway: bool, **asked: Any) -> int:
    """Play a time of the log again, with something changed.

    Workloads come when they came, their jobs run for as long as they ran,
    and clusters are lost when they were lost. What is decided comes from the
    functions with which the service decides. First the time is played as it
    was: if fewer than 99 % of its choices agree, nothing is compared.

    \b
    Exit code 1 if the past cannot be played again as it was.
    With -o json or yaml, one object:
      log, from, to (times), bounded (why they are others than were asked for),
        changes, capacities, not_simulated
      placements: recorded, agree, share, differ (workload, recorded, played,
        why), by time
      reproduced: whether the shares are high enough
      recorded, played, alternative (null without a change): the figures
      queues: of each ClusterQueue, whether its quota was decided by the
        engine, or is one capacity (of which the log knows no more)
      quota: recorded, agree, share, differ, of the engine's decisions
      settings_changed: when the service decided by others, which are not
        played
    """
    with open_reader(options) as reader:
        part = log_range(reader, begin, end, quiet=True)
        found = _answer(options, reader, part, asked, anyway=anyway)
    if options.output == "table":
        show(found)
    else:
        dump(options.output, found)
    if not found["reproduced"] and found["changes"] and not anyway:
        from controlplane.whatif.agreement import ENOUGH

        what = "quota" if found["quota"]["share"] < ENOUGH else "placements"
        raise CommandFailure(
            f"only {found[what]['share']:.1%} of the {_CHOICES[what]} were played again as they were: what is found "
            f"for the change would mean little, and is not shown; --anyway shows it"
        )
    return Exit.OK if found["reproduced"] else Exit.FAILED


def _answer(
    options: Options, reader: LogReader, part: LogRange, asked: Mapping[str, Any], *, anyway: bool
) -> dict[str, Any]:
    from controlplane.controllers.quota.admission.hosting import engine_settings
    from controlplane.settings import resolve
    from controlplane.whatif.agreement import agreement, quota_agreement
    from controlplane.whatif.capacity import Capacities
    from controlplane.whatif.history import History
    from controlplane.whatif.measure import Measures

    began, ended, bounded = _times(reader, part)
    part = _whole(reader, part, began)
    then, changed = _decided_by(options, reader, part)
    policy, own = then.policy, engine_settings(then.settings)
    alternative, other, changes = _alternative(options, policy, asked)
    history = History(_requests(reader))
    measures = Measures(began, ended, history.requests)
    for recorded in progressing(reader.events(_until(part.end)), part.end, "reading"):
        history.take(recorded)
        measures.take(recorded)
    _known(alternative, history)
    _fits(alternative, history, began)
    capacities = Capacities(history)
    played = _play(reader, part, history, capacities, (policy, own), (began, ended), None)
    agreed = agreement(history, played.placements, began, ended)
    quota = quota_agreement(history, played.quota, began, ended)
    enough = agreed.enough and quota.enough
    instead = None
    if changes and (enough or anyway):
        by = other, own if asked["other"] is None else engine_settings(resolve(asked["other"], {}, {}).settings)
        instead = _play(reader, part, history, capacities, by, (began, ended), alternative)
    return {
        "log": reader.log,
        "from": began,
        "to": ended,
        "bounded": bounded,
        "changes": changes,
        "capacities": {name: dict(one) for name, one in sorted(capacities.of.items())},
        "not_simulated": played.beyond,
        "placements": {name: getattr(agreed, name) for name in _AGREED},
        "reproduced": enough,
        "recorded": measures.result({name: one for name, one in capacities.of.items() if "/" not in name}),
        "played": played.figures,
        "alternative": instead.figures if instead is not None else None,
        "queues": history.queues(),
        "quota": {name: getattr(quota, name) for name in _AGREED},
        "settings_changed": changed,
    }


# --- what is read -----------------------------------------------------------------------------------------------------


def _until(end: int) -> Any:
    from controlplane.audit.reads import Filter

    return Filter(until=end)


def _times(reader: LogReader, part: LogRange) -> tuple[datetime, datetime, list[str]]:
    """Return the time that was asked for, as far as the log goes, and in words where that is not all of it; without
    times, from the last event before a part of the log to its own last one."""
    from datetime import timedelta

    from controlplane.audit.reads import Filter

    def at(position: int) -> Recorded:
        return next(iter(reader.events(Filter(after=max(position - 1, 0)))))

    # Where the event before is none of this database, as all before it may be archived, it is just before the first.
    first = at(part.begin)
    began = first.recorded_at if first.position == part.begin else first.recorded_at - timedelta(milliseconds=1)
    ended = at(part.end).recorded_at
    bounded = []
    if part.since is not None and part.begin:
        began = max(part.since, began)
    elif part.since is not None:
        bounded.append(f"the log begins at {clock(first.recorded_at)} UTC, after --from")
    if part.until is not None and part.until > (last := at(reader.head()).recorded_at):
        bounded.append(f"the log ends at {clock(last)} UTC, before --to")
    elif part.until is not None:
        ended = part.until
    return began, ended, bounded


def _whole(reader: LogReader, part: LogRange, began: datetime) -> LogRange:
    """Return a part of the log that begins between two moments: what was committed at one belongs together."""
    from controlplane.audit.reads import Filter

    begin = part.begin
    for one in reader.events(Filter(after=begin, until=part.end)) if begin else ():
        if one.recorded_at > began:
            break
        begin = one.position
    return LogRange(begin, part.end)


def _requests(reader: LogReader) -> dict[str, dict[str, float]]:
    """Return what Workloads ask for, by stream, in base units, where the log knows."""
    rows = reader.rows(
        "SELECT DISTINCT namespace, name, resources FROM audit.runs WHERE log = %(log)s AND resources IS NOT NULL "
        "ORDER BY 1, 2, 3"
    )
    return {
        f"workload/{row['namespace']}/{row['name']}": {
            name: float(amount) for name, amount in row["resources"].items() if amount is not None
        }
        for row in rows
    }


def _decided_by(options: Options, reader: LogReader, part: LogRange) -> tuple[DecisionSettings, list[datetime]]:
    """Return what was decided by when the time began; where the log does not say, what these settings say. And when
    something else was decided by from then on."""
    from controlplane.audit.reads import Filter
    from controlplane.controllers.connectivity.events import PolicyInForce
    from controlplane.controllers.multikueue.nominate import OWN
    from controlplane.whatif.deciders import chosen, then

    said = list(reader.events(Filter(types=[PolicyInForce.__name__], until=part.end)))
    first = next((one for one in reversed(said) if one.position <= part.begin), said[0] if said else None)
    own = options.settings()
    by = then(own, first.event) if first is not None and isinstance(first.event, PolicyInForce) else chosen(own)
    changed: list[datetime] = []
    last = by
    for one in said:
        if one.position > part.begin and isinstance(one.event, PolicyInForce) and (now := then(own, one.event)) != last:
            changed, last = [*changed, one.recorded_at], now
    if by.policy.dispatcher not in OWN:
        raise CommandFailure(
            f"clusters were nominated by {by.policy.dispatcher}, which is no part of this program: what it would do "
            "cannot be played again",
            Exit.NOT_FOUND,
        )
    if not by.policy.dispatches:
        raise CommandFailure(f"the service of the log {reader.log} dispatched no Workloads", Exit.NOT_FOUND)
    return by, changed


# --- what is to be otherwise ------------------------------------------------------------------------------------------


def _alternative(
    options: Options, policy: MultiKueuePolicy, asked: Mapping[str, Any]
) -> tuple[Alternative, MultiKueuePolicy, list[str]]:
    """Return what is to be otherwise, the policy then, and the same in words."""
    from controlplane.whatif.files import GivenQuotas, InputError, added_cluster, quotas
    from controlplane.whatif.simulated_log import Alternative

    changes = [f"without {name}" for name in dict.fromkeys(asked["without"])]
    option, file = "--add-cluster", asked["quota"]
    try:
        added = tuple(added_cluster(_text(option, one), str(one)) for one in asked["added"])
        option = "--quota"
        given = quotas(_text(option, file), str(file)) if file is not None else GivenQuotas()
    except InputError as error:
        raise CommandFailure(f"{option}: {error}", Exit.USAGE) from None
    changes += [f"with {one.name}" for one in added]
    changes += [f"with the quotas of {file}"] if file is not None else []
    other, said = _policy(options, policy, asked)
    without = frozenset(asked["without"])
    alternative = Alternative(without=without, added=added, capacities=given.capacities, objects=given.objects)
    return alternative, other, changes + said


def _text(option: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandFailure(f"{option}: {file} cannot be read: {error.strerror}", Exit.USAGE) from None


def _policy(options: Options, policy: MultiKueuePolicy, asked: Mapping[str, Any]) -> tuple[MultiKueuePolicy, list[str]]:
    import msgspec

    from controlplane.controllers.multikueue import nominate
    from controlplane.settings import resolve
    from controlplane.whatif.deciders import chosen

    changes, settings = [], options.settings()
    if asked["other"] is not None:
        settings = resolve(asked["other"], {}, {}).settings
        policy = chosen(settings).policy
        changes.append(f"by the settings of {asked['other']}")
        _decides(policy, asked)
    if asked["dispatcher"] is not None:
        names = {"all-at-once": nominate.ALL_AT_ONCE, "incremental": nominate.INCREMENTAL, "scored": nominate.SCORED}
        scoring = None
        if asked["dispatcher"] == "scored":
            scoring = policy.scoring or _rules(settings)
        policy = msgspec.structs.replace(policy, dispatcher=names[asked["dispatcher"]], scoring=scoring)
        changes.append(f"dispatched {asked['dispatcher']}")
    return policy, changes


def _decides(policy: MultiKueuePolicy, asked: Mapping[str, Any]) -> None:
    """Raise `CommandFailure` for settings by which this program places nothing."""
    from controlplane.controllers.multikueue.nominate import OWN

    file = asked["other"]
    if not policy.dispatches:
        raise CommandFailure(
            f"--policy: by {file} no Workloads are dispatched: add multikueue to run.controllers", Exit.USAGE
        )
    if policy.dispatcher not in OWN and asked["dispatcher"] is None:
        raise CommandFailure(
            f"--policy: by {file} clusters are nominated by {policy.dispatcher}, which is no part of this program: "
            "say with --dispatcher who does",
            Exit.USAGE,
        )


def _rules(settings: Settings) -> Any:
    """Return the rules of some settings by which clusters would be scored."""
    import msgspec

    from controlplane.controllers.multikueue.nominate import SCORED
    from controlplane.whatif.deciders import chosen

    scored = msgspec.structs.replace(settings.multikueue, dispatcher_name=SCORED)
    return chosen(msgspec.structs.replace(settings, multikueue=scored)).policy.scoring


def _fits(alternative: Alternative, history: History, began: datetime) -> None:
    """Raise `CommandFailure` for quotas that cannot be given as the file gives them."""
    from controlplane.whatif.files import unlimited
    from controlplane.whatif.others import queue_place
    from controlplane.whatif.quota_objects import problem

    found = problem(alternative.objects, alternative.capacities, history.quota, began)
    if found:
        raise CommandFailure(f"--quota: {found}", Exit.USAGE)
    # What the engine decides about is bounded by its specs.
    known = {queue_place(name) for name in history.quota.queues}
    told = {place: one for place, one in alternative.capacities.items() if place not in known}
    if found := unlimited(alternative.added, told, history.resources()):
        raise CommandFailure(found, Exit.USAGE)


def _known(alternative: Alternative, history: History) -> None:
    """Raise `CommandFailure` for a cluster or a ClusterQueue that the log does not know, with the nearest names."""
    clusters, queues = history.clusters(), sorted(history.queues())
    asked = [("--without", name, clusters) for name in sorted(alternative.without)]
    for place in alternative.capacities:
        queue = place.partition("/")[2]
        asked.append(("--quota", queue or place, queues if queue else clusters))
    for option, name, known in asked:
        if name not in known:
            what = "ClusterQueue" if known is queues else "cluster"
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or known[:5]
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise CommandFailure(f"{option}: the log knows no {what} {name}{hint}", Exit.NOT_FOUND)
    _new_names([one.name for one in alternative.added], clusters)


def _new_names(names: Sequence[str], clusters: Collection[str]) -> None:
    for name in names:
        if name in clusters:
            raise CommandFailure(f"--add-cluster: there is a cluster {name} already: use --quota", Exit.USAGE)
        if names.count(name) > 1:
            raise CommandFailure(f"--add-cluster: the cluster {name} is given twice: give it once", Exit.USAGE)


# --- playing ----------------------------------------------------------------------------------------------------------


def _play(
    reader: LogReader,
    part: LogRange,
    history: History,
    capacities: Capacities,
    by: tuple[MultiKueuePolicy, EngineSettings],
    times: tuple[datetime, datetime],
    alternative: Alternative | None,
) -> SimulationResult:
    from controlplane.runtime.collector import without_collector
    from controlplane.whatif.simulated_log import SimulationStuck
    from controlplane.whatif.simulation import Simulation

    with without_collector(), sharing("playing" if alternative is None else "playing the alternative") as progress:
        policy, quota = by
        simulation = Simulation(history, capacities, policy, *times, alternative, progress, quota)
        for recorded in _before(reader, part.begin):
            simulation.before(recorded)
        try:
            return simulation.play()
        except SimulationStuck as stuck:
            raise CommandFailure(f"the simulation does not end: {stuck}; leave this time out with --to") from None


def _before(reader: LogReader, begin: int) -> Iterable[Recorded]:
    return reader.events(_until(begin)) if begin else ()
