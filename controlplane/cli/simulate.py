"""`controlplane simulate`: the whole service against simulated clusters, from a seed, in virtual time.

In: seeds. Out: whether each holds; for one that fails, the trace of its smallest form, the command that replays it, and
exit code 1. Needs neither a database nor a cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import LARGEST, Options, Whole
from controlplane.cli.output import dump, line, table

if TYPE_CHECKING:
    from controlplane.dst.engine.plan import Plan
    from controlplane.dst.engine.run import Outcome

_MOST_PROCESSES = 1024
_PROGRESS = 2.0  # seconds between two lines of progress
_Draw: TypeAlias = "Callable[[int], Plan]"


@click.command(cls=Verb)
@click.option("--seed", type=Whole(0, LARGEST), metavar="N", help="The seed to play.")
@click.option("--seeds", metavar="A..B", help="Play all seeds from A to B.")
@click.option(
    "--steps", metavar="LIST", help="Only these steps of the seed's plan, such as 1,4-6 (`none`: no step at all)."
)
@click.option(
    "--plan",
    "edition",
    type=Whole(1, 10),
    help="The edition of the plans, 10 by default: what a seed meant when it was noted.",
)
@click.option(
    "--scene",
    type=click.Choice(("workloads", "admission", "candidates", "local")),
    default="workloads",
    show_default=True,
    help="What is played: Workloads over many clusters, the same where this service decides on quota, candidate pods"
    " with a scheduler beside each target, or one's own cluster's pods.",
)
@click.option("--story", "tell", is_flag=True, help="Tell the story, also of a seed that holds.")
@click.option("--trace", is_flag=True, help="Print every line of the trace.")
@click.option("--no-shrink", is_flag=True, help="Tell a failure as it is, without looking for its smallest form.")
@click.option(
    "--processes",
    type=Whole(1, _MOST_PROCESSES),
    default=1,
    show_default=True,
    help="How many seeds to play at a time.",
)
@click.pass_obj
def simulate(
    options: Options,
    seed: int | None,
    seeds: str | None,
    steps: str | None,
    scene: str,
    edition: int | None,
    tell: bool,
    trace: bool,
    no_shrink: bool,
    processes: int,
) -> int:
    """Play seeds of the deterministic simulation and check what must always hold.

    The service's own loop, executors and connections run against simulated clusters through partitions, crashes, lost
    answers and whatever else a plan drawn from the seed has in store. The same seed gives the same run, to the byte.
    """
    if (seed is None) == (seeds is None):
        raise click.UsageError("give --seed or --seeds")
    draw = partial(_plan, scene, edition)
    if seeds is not None:
        if steps is not None or trace:
            raise click.UsageError("--steps and --trace go with --seed")
        return _many(options, _range(seeds), draw, processes, shrinking=not no_shrink)
    assert seed is not None
    return _one(draw(seed), steps, tell=tell, trace=trace, shrinking=not no_shrink and steps is None)


def _plan(scene: str, edition: int | None, seed: int) -> Plan:
    from controlplane.dst.engine.plan import EDITION
    from controlplane.dst.play import plan_of

    return plan_of(seed, scene=scene, edition=EDITION if edition is None else edition)


def _one(plan: Plan, steps: str | None, *, tell: bool, trace: bool, shrinking: bool) -> int:
    from controlplane.dst.engine.plan import chosen
    from controlplane.dst.engine.story import story, summary
    from controlplane.dst.play import play

    if steps is not None:
        try:
            plan = plan.only([] if steps == "none" else chosen(steps))
        except ValueError:
            raise click.UsageError(f"--steps: {steps!r} is not a list of numbers such as 1,4-6") from None
    outcome = play(plan)
    if outcome.violation is not None:
        _show_failure(outcome, shrinking=shrinking, trace=trace)
        return Exit.FAILED
    if tell or trace:
        for text in story(outcome, whole=trace):
            line(text)
    line(summary(outcome))
    return Exit.OK


def _show_failure(outcome: Outcome, *, shrinking: bool, trace: bool = False) -> None:
    from controlplane.dst.engine.shrink import shrink
    from controlplane.dst.engine.story import command, story, summary
    from controlplane.dst.play import play

    before = len(outcome.plan.steps)
    if shrinking:
        click.echo(f"seed {outcome.plan.seed} fails; looking for a smaller form of it ...", err=True)
        outcome = shrink(outcome, play)
    if not outcome.lines:
        outcome = play(outcome.plan)
    for text in story(outcome, whole=trace):
        line(text)
    line(summary(outcome))
    line(f"{len(outcome.plan.steps)} of {before} steps. Replay: {command(outcome.plan)}")


def _many(options: Options, seeds: Sequence[int], draw: _Draw, processes: int, *, shrinking: bool) -> int:
    began = time.monotonic()
    failed, figures = _play_all(seeds, draw, processes)
    failed.sort(key=lambda outcome: outcome.plan.seed)
    if options.output != "table":
        rows = [
            {"seed": o.plan.seed, "rule": o.violation.rule, "detail": o.violation.detail} for o in failed if o.violation
        ]
        dump(options.output, {**figures, "failed": rows})
        return Exit.FAILED if failed else Exit.OK
    if failed:
        rules = Counter(outcome.violation.rule for outcome in failed if outcome.violation)
        firsts = {outcome.violation.rule: outcome.plan.seed for outcome in reversed(failed) if outcome.violation}
        table(("rule", "seeds", "first"), [(rule, count, firsts[rule]) for rule, count in rules.most_common()])
        _show_failure(failed[0], shrinking=shrinking)
    hours, seconds = figures["virtualSeconds"] / 3600, time.monotonic() - began
    held = figures["seeds"] - len(failed)
    line(
        f"{held} of {figures['seeds']} seeds hold: {hours:.1f} virtual hours, {figures['events']} events,"
        f" {seconds:.0f} s"
    )
    return Exit.FAILED if failed else Exit.OK


def _play_all(seeds: Sequence[int], draw: _Draw, processes: int) -> tuple[list[Outcome], dict[str, int]]:
    """Play seeds with signs of progress on stderr; return the failures and what all of them came to."""
    from controlplane.dst.engine.story import summary

    failed: list[Outcome] = []
    figures = {"seeds": 0, "virtualSeconds": 0, "events": 0}
    began = said = time.monotonic()
    for outcome in _played(seeds, draw, processes):
        figures["seeds"] += 1
        figures["virtualSeconds"] += round(outcome.seconds)
        figures["events"] += outcome.events
        if outcome.violation is not None:
            failed.append(outcome)
            click.echo(summary(outcome), err=True)
        if time.monotonic() - said >= _PROGRESS:
            said = time.monotonic()
            rate = figures["seeds"] / (said - began)
            click.echo(f"{figures['seeds']} of {len(seeds)} seeds, {len(failed)} failed, {rate:.1f} a second", err=True)
    return failed, figures


def _played(seeds: Iterable[int], draw: _Draw, processes: int) -> Iterator[Outcome]:
    play = partial(_play, draw)
    if processes == 1:
        yield from map(play, seeds)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(play, seeds, chunksize=8)


def _play(draw: _Draw, seed: int) -> Outcome:
    from controlplane.dst.play import play

    return play(draw(seed)).brief()


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        found = range(int(first), int(last) + 1)
    except ValueError:
        raise click.UsageError(f"--seeds: {text!r} is not of the form A..B") from None
    if found.start < 0 or found.stop > LARGEST:
        raise click.UsageError(f"--seeds: seeds are numbers from 0 to {LARGEST - 1}")
    if not dots or not found:
        raise CommandFailure(f"--seeds: there is no seed in {text}", Exit.USAGE)
    return found
