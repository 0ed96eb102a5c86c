"""`controlplane up`: everything on one machine, until Ctrl-C. PostgreSQL, the clusters and the service; nothing else is
needed.

In: a folder, and how large the fleet shall be. Out: where everything is, for kubectl, psql and curl. What ran in the
folder before goes on: the log, the objects in the clusters, their ports and so the kubeconfigs."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, Whole
from controlplane.cli.output import dump, line

if TYPE_CHECKING:
    from controlplane.local.environment import LocalEnvironment
    from controlplane.local.folder import DataFolder, LocalFleet
    from controlplane.settings import Resolved, Settings
    from controlplane.web import WebServer

_PORT = Whole(0, 65_535)
_PROGRAM = "controlplane"
_URL = "CONTROLPLANE_DATABASE_URL"


def _an_address(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Return an IP address as it was given."""
    if text is not None:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise click.BadParameter(f'must be an IP address such as 0.0.0.0 or 127.0.0.1, not "{text}"') from None
    return text


@click.command(cls=Verb)
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where everything is kept."
)
@click.option("--workers", type=Whole(1, 100), metavar="N", help="Worker clusters, if the folder is new.  [default: 3]")
@click.option("--cpu", metavar="AMOUNT", help="CPUs of each worker's queue, if the folder is new.  [default: 4]")
@click.option("--management-port", type=_PORT, metavar="PORT", help="The port of the management cluster's API server.")
@click.option("--cluster-ports", type=_PORT, metavar="PORT", help="The first port of the clusters' API servers.")
@click.option(
    "--address",
    callback=_an_address,
    metavar="IP",
    help="Where the clusters' API servers listen.  [default: 127.0.0.1]",
)
@click.option("--inside", metavar="COMMAND", help="What runs a command in the container in which this runs.")
@click.option("--database-port", type=_PORT, metavar="PORT", help="The port of the embedded PostgreSQL.")
@click.option(
    "--cut",
    metavar="CLUSTER",
    multiple=True,
    help="Starts nothing: cuts a cluster off from the service that runs in the folder. May be repeated.",
)
@click.option("--heal", metavar="CLUSTER", multiple=True, help="Starts nothing: ends that. May be repeated.")
@click.pass_obj
def up(
    options: Options,
    /,
    data: Path | None,
    inside: str | None,
    cut: tuple[str, ...],
    heal: tuple[str, ...],
    **asked: int | str | None,
) -> None:
    """Run everything on this machine: a database, simulated clusters, the service.

    Without --data it is kept in /var/lib/controlplane for root, and in ~/.local/share/controlplane for others. Started
    again on the same folder it goes on where it was. With --database-url (or database.url) the log is kept in that
    database instead of an embedded one."""
    from controlplane.local.folder import DataFolder, LocalError, PortError, default_folder

    if cut or heal:
        _play(options, DataFolder(data or default_folder()), cut, heal)
        return
    resolved = options.resolve()
    from controlplane import telemetry

    try:
        with DataFolder(data or default_folder()) as folder:
            fleet = folder.fleet({name: value for name, value in asked.items() if value is not None})
            settings = _local(resolved)
            telemetry.configure(settings.log.level, settings.log.format)
            ports = functools.partial(_with_ports, settings, resolved.origins)
            asyncio.run(_up(folder, fleet, settings, ports, options, inside or ""))
    except LocalError as error:
        raise CommandFailure(str(error), Exit.LISTEN if isinstance(error, PortError) else Exit.FAILED) from error


def _play(options: Options, folder: DataFolder, cut: tuple[str, ...], heal: tuple[str, ...]) -> None:
    """Cut clusters off, and heal others, in the fleet that another process runs in the folder."""
    from controlplane.local.folder import LocalError
    from controlplane.local.outages import ask

    try:
        away = ask(folder, cut, heal)
    except LocalError as error:
        raise CommandFailure(str(error), Exit.FAILED) from error
    if options.output != "table":
        dump(options.output, {"cut": away})
    elif away:
        again = _here("up", "--data", str(folder.root), *(word for name in away for word in ("--heal", name)))
        line(f"Cut off: {', '.join(away)}. What runs there runs on. `{again}` ends it.")
    else:
        line("All clusters can be reached.")


async def _up(
    folder: DataFolder,
    fleet: LocalFleet,
    settings: Settings,
    with_ports: Callable[[LocalFleet], Settings],
    options: Options,
    inside: str,
) -> None:
    from controlplane.cli.run import pages, serve, stop_on_signals, usable
    from controlplane.local.environment import LocalEnvironment

    form = options.output
    stop = stop_on_signals()
    given = settings.database.url.reveal()
    own = "" if is_of(fleet, given) else given
    if own and own == os.environ.get(_URL):
        click.echo(f"The log is kept in the database that {_URL} names; unset that for one in {folder.root}.", err=True)
    role, kueue = settings.database.role, not settings.quota.builtin
    async with LocalEnvironment(folder, fleet, database_url=own, role=role, kueue=kueue) as place:
        revision = await usable(place.database)

        if not stop.is_set():
            url, management = place.database.url, place.management_kubeconfig
            settings = with_ports(place.fleet)
            async with pages(settings, url, options.config, management) as shown:

                def announce(server: WebServer) -> None:
                    place.remember_ports(server.port, urlsplit(shown).port or 0)
                    _announce(place, f"http://{server.address}:{server.port}", shown, form, inside)

                await serve(settings, place.database, revision, place.open_management, stop, announce)
    if form == "table":
        again = "docker compose up --detach" if inside else _here("up", "--data", str(folder.root))
        line(f"Stopped. `{again}` goes on from here.")


def is_of(fleet: LocalFleet, url: str) -> bool:
    """Whether a URL is that of the embedded PostgreSQL of this folder, as the last start printed it: whoever exported
    it for other commands does not mean a database of his own."""
    try:
        parts = urlsplit(url)
        place = parts.username, parts.hostname, parts.port
    except ValueError:  # no port: the settings say what is wrong with it
        return False
    return fleet.last_database_port > 0 and place == ("controlplane", "127.0.0.1", fleet.last_database_port)


def _local(resolved: Resolved) -> Settings:
    """Return the settings with what suits one machine where nobody has said anything: this machine only, and a log for
    people.
    """
    from controlplane.pages.beside import missing_library

    settings, origins = resolved.settings, resolved.origins
    settings = _unsaid(settings, origins, "http", address="127.0.0.1")
    settings = _unsaid(settings, origins, "web", serve="no" if missing_library() else "yes")
    return _unsaid(settings, origins, "log", format="console")


def _with_ports(settings: Settings, origins: Mapping[str, str], fleet: LocalFleet) -> Settings:
    """Return the settings with the ports of the last start where nobody has said anything, or any free ones: asked for
    only when they are listened on, since another program may take one at any time.
    """
    from controlplane.local.environment import still_free

    settings = _unsaid(settings, origins, "http", port=still_free(fleet.last_http_port))
    return _unsaid(settings, origins, "web", port=still_free(fleet.last_web_port))


def _unsaid(settings: Settings, origins: Mapping[str, str], section: str, **local: object) -> Settings:
    """Return the settings with those of a section's values that nobody has said anything about."""
    import msgspec

    values = {name: value for name, value in local.items() if origins[f"{section}.{name}"] == "default"}
    return msgspec.structs.replace(settings, **{section: msgspec.structs.replace(getattr(settings, section), **values)})


def _announce(place: LocalEnvironment, http: str, shown: str, form: str, inside: str) -> None:
    """Print where everything is."""
    kubeconfigs = {name: str(place.folder.kubeconfig(name)) for name in place.world.clusters}
    if form != "table":
        dump(
            form,
            {
                "data": str(place.folder.root),
                "database": place.shown_url,
                "http": http,
                "web": shown,
                "kubeconfigs": kubeconfigs,
            },
        )
        return
    if inside:
        line("In the container:")
    line(f"data         {place.folder.root}")
    line(f"database     {place.shown_url}")
    if shown and not inside:  # in a container nobody reaches its loopback
        line(f"pages        {shown}")
    line(f"metrics      {http}/metrics  (and /readyz)")
    for name, path in kubeconfigs.items():
        line(f"{name:<12} {path}")
    line("")
    line("Try, in another terminal:")
    for command in _proposed(place, kubeconfigs["management"], inside):
        line(f"  {command}")
    if not inside:
        away = _here("up", "--data", str(place.folder.root), "--cut", place.fleet.names[0])
        line(f"  {away}  (and see what becomes of its jobs)")
    line(f"{'`docker compose stop`' if inside else 'Ctrl-C'} stops everything and keeps the data.")


def _proposed(place: LocalEnvironment, kubeconfig: str, inside: str) -> list[str]:
    """Return what to type next: commands that work as they stand where people are, which may be outside the container
    of this process.
    """
    from controlplane.local.examples import jobs_file

    shown = "jobs,workloads,multikueueclusters"
    if inside:
        # The container's environment names the database and the kubeconfig.
        file = Path(kubeconfig).name
        service = shlex.split(inside)[-1]
        return [
            f"{inside} {_command('submit', str(jobs_file()))}",
            f"{inside} {_command('workloads')}",
            shlex.join(["docker", "compose", "cp", f"{service}:{kubeconfig}", file]),
            _kubectl(file, "get", shown, "-A"),
        ]
    # Somebody's own database: the password is not ours to print; this process has it from the environment or a file.
    url = () if "***" in place.shown_url else ("--database-url", place.shown_url)
    given = "  (with the database as it was given here)" if not url else ""
    return [
        _kubectl(kubeconfig, "apply", "-f", str(jobs_file())),
        _kubectl(kubeconfig, "get", shown, "-A"),
        _here("submit", "--kubeconfig", kubeconfig, str(jobs_file())) + "  (without kubectl)",
        _here(*url, "workloads") + given,
    ]


def _kubectl(kubeconfig: str, *arguments: str) -> str:
    return shlex.join(["kubectl", "--kubeconfig", kubeconfig, *arguments])


def _command(*arguments: str, program: str = _PROGRAM) -> str:
    return shlex.join([program, *arguments])


def _here(*arguments: str) -> str:
    """Return a command of this program as it works in any terminal: by its path where its name finds nothing."""
    typed = Path(sys.argv[0])
    unfound = typed.name == _PROGRAM and shutil.which(_PROGRAM) is None
    return _command(*arguments, program=str(typed.absolute()) if unfound else _PROGRAM)
