"""`controlplane coscheduling`: what would be created, moved and removed for a PipelineRun, and what it is charged,
without a cluster.

In: the run, Tekton's ConfigMaps, and whatever else is there, as YAML streams or Lists. Out: the plan, or the account;
exit code 1 if the input is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import CommandGroup
from controlplane.cli.options import Options
from controlplane.cli.output import dump, line, table
from controlplane.cli.settings_file import formerly_config

if TYPE_CHECKING:
    from controlplane.controllers.coscheduling.placement.plan import PlacementPlan

_STDIN = Path("-")
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_MODES = ("workspaces", "pipelineruns", "isolate-pipelinerun", "disabled")
COLUMNS = ("action", "kind", "name", "why")
_files = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=_FILE,
    metavar="FILE",
    help="Objects; - for standard input; may be repeated.",
)


@click.group(cls=CommandGroup)
def coscheduling() -> None:
    """Plan how a PipelineRun's pods are brought to one node."""


@coscheduling.command()
@_files
@click.option(
    "--mode", type=click.Choice(_MODES), help="The mode to reckon in; default: what the run asks for, else workspaces."
)
@click.option("--run", "name", metavar="NAME", help="Which PipelineRun, if there are several; default: the first.")
@click.pass_obj
def charge(options: Options, files: tuple[Path, ...], mode: str | None, name: str | None) -> int:
    """Say what quota has to hold for a PipelineRun: its largest wave of tasks, and its placeholders.

    Whoever makes the run's Workload asks for the total. Pipelines and Tasks that the run names have to be in the files.

    \b
    With -o json or yaml, one object:
      run, mode, placeholders, tasks and total (quantities by resource)
    Exit code 1 if the input is refused.
    """
    from controlplane.controllers.coscheduling.feasibility.accounting import account, account_json
    from controlplane.controllers.coscheduling.feasibility.decide import asked_mode
    from controlplane.controllers.coscheduling.flags import Mode
    from controlplane.controllers.coscheduling.objects import read_run
    from controlplane.controllers.coscheduling.placement import inputs
    from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
    from controlplane.controllers.coscheduling.placement.plan import find_pipeline

    _once(files)
    try:
        objects = [obj for file in files for obj in inputs.read_objects(_bytes(file), _named(file))]
        run = read_run(inputs.chosen_run(objects, name))
        chosen = Mode(mode) if mode else asked_mode(run.annotations) or Mode.WORKSPACES
        found = {"run": run.name, "mode": chosen.value} | account_json(
            account(run, find_pipeline(run, ObjectsByKind(objects)), chosen)
        )
    except ValueError as error:
        raise CommandFailure(str(error)) from None
    if options.output != "table":
        dump(options.output, found)
        return Exit.OK
    line(f"PipelineRun {found['run']}: mode {found['mode']}, placeholders {found['placeholders']}")
    table(
        ("resource", "tasks", "total"),
        ((one, found["tasks"].get(one, "0"), most) for one, most in found["total"].items()),
    )
    return Exit.OK


@coscheduling.command()
@formerly_config("flags", "--feature-flags", _FILE)
@_files
@click.option("--feature-flags", "flags", type=_FILE, metavar="FILE", help="Tekton's ConfigMap feature-flags.")
@click.option("--defaults", type=_FILE, metavar="FILE", help="Tekton's ConfigMap config-defaults.")
@click.option("--run", "name", metavar="NAME", help="Which PipelineRun, if there are several; default: the first.")
@click.option("--nop-image", metavar="IMAGE", help="The placeholders' image, as in Tekton's flag -nop-image.")
@click.option("--old-worker", is_flag=True, help="The cluster's Tekton still knows disable-affinity-assistant.")
@click.option("--isolate-everywhere", is_flag=True, help="Isolated runs avoid those of other namespaces too.")
@click.pass_obj
def plan(
    options: Options,
    files: tuple[Path, ...],
    flags: Path | None,
    defaults: Path | None,
    name: str | None,
    nop_image: str | None,
    old_worker: bool,
    isolate_everywhere: bool,
) -> int:
    """Say what would be created, moved and removed for a PipelineRun.

    A dry run: no cluster is asked. StatefulSets, claims, Pods, Nodes, Pipelines, Tasks and TaskRuns in the files count
    as being there.

    \b
    With -o json or yaml, one object:
      mode, error, statefulSets, persistentVolumeClaims (what would be created),
      taskRuns: task, kind, annotations, workspaces, podTemplate, affinity,
      deletions, cleanup, adopted, warnings
    Exit code 1 if the input is refused; `error` then says why.
    """
    from controlplane.controllers.coscheduling.placement.plan import PlacementPlan, plan_json
    from controlplane.controllers.coscheduling.problems import InputRefused

    _once([*files, flags, defaults])
    try:
        found = _plan(files, flags, defaults, name, nop_image, old_worker=old_worker, everywhere=isolate_everywhere)
    except InputRefused as refused:
        found = PlacementPlan(problems=refused.problems)
    if options.output != "table":
        dump(options.output, plan_json(found))
        return Exit.FAILED if found.error else Exit.OK
    if found.error:
        raise CommandFailure(found.error)
    _print_plan(found)
    return Exit.OK


def _plan(
    files: tuple[Path, ...],
    flags: Path | None,
    defaults: Path | None,
    name: str | None,
    image: str | None,
    *,
    old_worker: bool,
    everywhere: bool,
) -> PlacementPlan:
    from controlplane.controllers.coscheduling.flags import DEFAULT_WHERE, FLAGS_NAME
    from controlplane.controllers.coscheduling.placement import inputs
    from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
    from controlplane.controllers.coscheduling.placement.placeholders import NOP_IMAGE
    from controlplane.controllers.coscheduling.placement.plan import PlannedCluster
    from controlplane.controllers.coscheduling.placement.plan import plan as plan_of
    from controlplane.controllers.coscheduling.placement.templates import DEFAULTS_NAME, DEFAULTS_WHERE

    objects = [obj for file in files for obj in inputs.read_objects(_bytes(file), _named(file))]
    found: dict[str, tuple[str, Mapping[str, object]]] = {
        FLAGS_NAME: (DEFAULT_WHERE, {}),
        DEFAULTS_NAME: (DEFAULTS_WHERE, {}),
    }
    for wanted, given in ((FLAGS_NAME, flags), (DEFAULTS_NAME, defaults)):
        if given is not None:
            found[wanted] = inputs.read_settings(_bytes(given), _named(given), wanted)
        elif (among := inputs.config_among(objects, wanted)) is not None:
            found[wanted] = among
    flags_where, flags_data = found[FLAGS_NAME]
    defaults_where, defaults_data = found[DEFAULTS_NAME]
    cluster = PlannedCluster(
        flags=flags_data,
        defaults=defaults_data,
        flags_where=flags_where,
        defaults_where=defaults_where,
        old_worker=old_worker,
        image=image or inputs.nop_image_of(objects) or NOP_IMAGE,
        everywhere=everywhere,
    )
    return plan_of(inputs.chosen_run(objects, name), ObjectsByKind(objects), cluster)


def _once(sources: Sequence[Path | None]) -> None:
    if list(sources).count(_STDIN) > 1:
        raise CommandFailure(
            "- is given twice, but standard input can be read only once: put one of them into a file", Exit.USAGE
        )


def _bytes(source: Path) -> bytes:
    return sys.stdin.buffer.read() if source == _STDIN else source.read_bytes()


def _named(source: Path) -> str:
    return "standard input" if source == _STDIN else str(source)


def _print_plan(found: PlacementPlan) -> None:
    line(f"PipelineRun {found.run}: mode {found.mode}")
    table(COLUMNS, _rows(found))
    for warning in found.warnings:
        line(f"Warning: {warning}")


def _rows(found: PlacementPlan) -> Iterator[tuple[object, ...]]:
    for obj in [*found.claims, *found.stateful_sets]:
        yield (
            "create",
            obj["kind"],
            obj["metadata"]["name"],
            "a template" if obj["kind"] != "StatefulSet" else "a placeholder",
        )
    for task in found.tasks:
        workspaces = ", ".join(task.claims) or "no claim"
        yield "bind", task.kind, task.task, f"{workspaces}{' beside ' + task.placeholder if task.placeholder else ''}"
    for obj in found.adopted:
        yield "keep", obj["kind"], obj["metadata"]["name"], "it is there, and the run's"
    for pod, eviction in found.deletions:
        yield "move", "Pod", pod["metadata"]["name"], eviction.detail
    for removal in found.cleanup:
        yield "delete", removal.kind.kind, removal.name, removal.reason.value
