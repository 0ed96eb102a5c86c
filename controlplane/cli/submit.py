"""`controlplane submit`: jobs from a file, created on the management cluster, for whoever has no kubectl where this
runs.

In: a file with Jobs, JobSets or PipelineRuns. Out: what was created, and what the API server refused.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.cli.output import dump, table

if TYPE_CHECKING:
    from controlplane.kube.kinds import Json, Kind
    from controlplane.settings import Settings

_COLUMNS = ("KIND", "NAMESPACE", "NAME", "RESULT")
_CREATED, _NO_ANSWER = "created", "no answer"
_Row = tuple[str, str, str, str]


@click.command(cls=Verb)
@click.argument("files", nargs=-1, required=True, type=click.File(encoding="utf-8"), metavar="FILE…")
@click.option("--kubeconfig", metavar="FILE", help="The management cluster's kubeconfig; else management.kubeconfig.")
@click.pass_obj
def submit(options: Options, files: tuple[IO[str], ...], kubeconfig: str | None) -> None:
    """Create the jobs of a file on the management cluster; `-` reads standard input.

    Jobs of every kind that can be dispatched, as `kubectl create` would. What is there already is left as it is. The
    code is 1 if one was refused."""
    import asyncio

    if kubeconfig is not None:
        options.more["management.kubeconfig"] = (kubeconfig, "--kubeconfig")
    settings = options.settings()
    objects = [found for file in files for found in _objects(file)]
    rows: list[_Row] = []
    option = "--kubeconfig" if kubeconfig or not settings.management.kubeconfig else ""
    try:
        asyncio.run(_submit(settings, objects, option, rows))
    finally:  # what was created is told, also if the cluster is lost then
        if rows and options.output == "table":
            table(_COLUMNS, rows)
        elif rows:
            dump(options.output, [dict(zip(map(str.lower, _COLUMNS), row, strict=True)) for row in rows])
    if any(row[-1] not in (_CREATED, "AlreadyExists") for row in rows):
        raise CommandFailure("not everything was created (see above)", Exit.FAILED)


def _objects(file: IO[str]) -> list[tuple[Kind, Json]]:
    """Return the objects of a file with their kinds; `CommandFailure` for a file that holds anything else."""
    from controlplane.job_kinds import JOB_KINDS
    from controlplane.kube.documents import documents

    kinds = {(one.kind.api_version, one.kind.kind): one.kind for one in JOB_KINDS.values()}
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{file.name} is not UTF-8 at byte {error.start}: save it as UTF-8", Exit.USAGE) from None
    found = []
    for place, document, wrong in documents(file.name, text):
        if wrong:
            raise CommandFailure(f"{place} {wrong}", Exit.USAGE)
        an_object = isinstance(document, dict)
        kind = kinds.get((str(document.get("apiVersion")), str(document.get("kind")))) if an_object else None
        if kind is None:
            known = ", ".join(sorted(one.kind.kind for one in JOB_KINDS.values()))
            raise CommandFailure(f"{file.name} holds something else than jobs of these kinds: {known}", Exit.USAGE)
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
            raise CommandFailure(f"{file.name} has a {kind.kind} without metadata.name: give it a name", Exit.USAGE)
        found.append((kind, document))
    if not found:
        raise CommandFailure(f"{file.name} holds no jobs: nothing was created", Exit.USAGE)
    return found


async def _submit(settings: Settings, objects: list[tuple[Kind, Json]], option: str, rows: list[_Row]) -> None:
    """Create the objects one after another, each with a row; `CommandFailure` for a kubeconfig that cannot be used."""
    from controlplane.cli.run import check_openable, open_management
    from controlplane.clusters.protocol import ApiError, Unreachable

    async def opened() -> Any:
        return await open_management(settings)

    await check_openable(settings, opened, option)
    server = await opened()
    try:
        for kind, body in objects:
            namespace = str(body["metadata"].get("namespace") or "default")
            named = str(body["metadata"].get("name", ""))
            try:
                made = await server.create(kind, namespace, body)
                rows.append((kind.kind, namespace, str(made["metadata"]["name"]), _CREATED))
            except ApiError as error:
                message = error.reason if error.reason == "AlreadyExists" else error.message
                rows.append((kind.kind, namespace, named, message))
            except Unreachable:
                rows.append((kind.kind, namespace, named, _NO_ANSWER))
                raise
    finally:
        await server.close()
