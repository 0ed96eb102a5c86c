"""`controlplane run`: one replica of the service, until it is told to stop.

In: settings. Out: an exit code. Whatever can be known to be wrong before the first event is found here, in the order in
which a person would look for it: settings, database, schema, port, kubeconfig. It ends the process with one sentence,
so that a kubelet's restart count says that something is wrong. What goes away later is the service's own business: it
waits, and readiness says for what."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options
from controlplane.settings.model import CONTROLLERS

if TYPE_CHECKING:
    from controlplane.app.service import Service
    from controlplane.clusters.streams import ApiServer
    from controlplane.log.connect import Database
    from controlplane.runtime.hosting import Endpoint
    from controlplane.runtime.spans import Spans
    from controlplane.settings import Settings
    from controlplane.settings.candidates import VirtualNodeSettings
    from controlplane.settings.quota import VisibilitySettings
    from controlplane.web import Certificate, Health, WebServer
    from controlplane.web.webhook import Answer

OpenManagement = Callable[[], Awaitable["ApiServer"]]
Started = Callable[["WebServer"], None]


@click.command(cls=Verb)
@click.option(
    "--controllers",
    metavar="NAME,…",
    help=f"Which controllers run: {', '.join(CONTROLLERS)}. Without it, those of the setting run.controllers.",
)
@click.pass_obj
def run(options: Options, controllers: str | None) -> None:
    """Run the service: follow the log, and dispatch workloads while leading it.

    Any number of replicas may run; one leads, the others follow. SIGTERM and Ctrl-C let what is under way end and then
    leave with code 0; a second one leaves at once."""
    options.controllers = controllers
    url = options.database_url()
    settings = options.settings()
    from controlplane import event_loop, telemetry

    telemetry.configure(settings.log.level, settings.log.format)
    event_loop.run(_run(settings, url, options.config))


async def _run(settings: Settings, url: str, config: Path | None) -> None:
    from controlplane.log.connect import Database

    stop = stop_on_signals()
    database = Database(url, settings.database.role)
    revision = await usable(database)
    if stop.is_set():
        return
    async with pages(settings, url, config):
        await serve(settings, database, revision, functools.partial(open_management, settings), stop)


@contextlib.asynccontextmanager
async def pages(
    settings: Settings, url: str, config: Path | None, management: Path | None = None
) -> AsyncIterator[str]:
    """Have the pages served by a process of their own, if the settings say so; yield their address, "" if there are
    none. `management` is a kubeconfig in the place of the settings'. Raises `ListenError`.
    """
    if settings.web.serve != "yes":
        yield ""
        return
    from controlplane.pages.beside import beside, missing_library
    from controlplane.telemetry import logger

    if missing := missing_library():
        raise CommandFailure(
            f"web.serve: the pages need {missing}, which is not installed: install controlplane[web]",
            Exit.CONFIGURATION,
        )
    environment = {
        "CONTROLPLANE_DATABASE_URL": url,
        "CONTROLPLANE_DATABASE_LOG": settings.database.log,
        "CONTROLPLANE_LOG_FORMAT": settings.log.format,
    }
    if management is not None:
        environment["CONTROLPLANE_MANAGEMENT_KUBECONFIG"] = str(management)
    given = ["--config", str(config)] if config is not None else []
    web = settings.web
    async with beside(web.address, web.port, environment, given, web.published) as address:
        logger(__name__).info("serving the pages in a process of their own", address=address)
        yield address


@contextlib.asynccontextmanager
async def tracing(settings: Settings, log: str) -> AsyncIterator[Spans | None]:
    """Have spans of a log sent while the block runs, if the settings say so; None if they do not. Raises
    `CommandFailure`.
    """
    if not settings.tracing.endpoint:
        yield None
        return
    from controlplane.runtime.otel import exporting, missing_library
    from controlplane.telemetry import logger

    if missing := missing_library():
        raise CommandFailure(
            f"tracing.endpoint: spans need {missing}, which is not installed: install controlplane[otel]",
            Exit.CONFIGURATION,
        )
    async with exporting(settings.tracing.endpoint, log, settings.tracing.percent / 100) as spans:
        logger(__name__).info("sending spans", endpoint=settings.tracing.endpoint, percent=settings.tracing.percent)
        yield spans


def stop_on_signals() -> asyncio.Event:
    """Return an event that the first SIGTERM or Ctrl-C sets, or the end of the terminal; the second one does what it
    does to any program.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if os.getpid() != 1 and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # `nohup` has it ignored
        numbers.append(signal.SIGHUP)
    before = signal.getsignal(signal.SIGTERM)

    def once() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTERM, before)  # asyncio puts back the default, which ends any process but process 1

    for number in numbers:
        loop.add_signal_handler(number, once)
    return stop


async def usable(database: Database) -> str:
    """Return the revision of a database that this process can work with, as the role that it will have.

    Raises `SchemaError`, `CommandFailure` for a role that is not there, and psycopg's errors for one that may not read
    the log."""

    from controlplane.log import schema
    from controlplane.log.connect import RoleMissing, unverified_host
    from controlplane.telemetry import logger

    if host := unverified_host(database.url):
        logger(__name__).warning(
            "the database's certificate is not verified: whoever answers as that host gets the password and the"
            " history",
            host=host,
            set="sslmode=verify-full and sslrootcert in database.url",
        )
    await database.survey()
    revision = await asyncio.to_thread(schema.check, database.url)
    try:
        connection = await database.connect("start")
    except RoleMissing:
        raise CommandFailure(
            f'database.role: there is no role "{database.role}" in that database', Exit.DATABASE
        ) from None
    try:
        await connection.execute("SELECT 1 FROM controlplane.log_head LIMIT 1")
    finally:
        await connection.close()
    return revision


async def serve(
    settings: Settings,
    database: Database,
    revision: str,
    open_server: OpenManagement,
    stop: asyncio.Event,
    started: Started | None = None,
) -> None:
    """Serve the operators' endpoints and run the service until `stop` is set; `started` hears when the endpoints are
    there.

    Raises `ListenError`, `CommandFailure` for a kubeconfig or a certificate that cannot be used, and what `Service.run`
    raises."""
    from controlplane.app.admission import answers, endpoint
    from controlplane.app.ports import ports_of
    from controlplane.app.service import CHECKS, Service
    from controlplane.clock import SystemClock
    from controlplane.telemetry import metrics

    chosen = endpoint(settings)
    certificate = _certificate(chosen.key_of_certificate, chosen.certificate, chosen.key) if chosen else None
    visible = settings.quota.visibility
    shown = _certificate("quota.visibility.certificate", visible.certificate, visible.key)
    async with (
        serving(settings, CHECKS, revision, open_server, started) as health,
        tracing(settings, settings.database.log) as spans,
    ):
        service = Service(settings, ports_of(database), open_server, metrics=metrics, health=health, spans=spans)
        async with (
            _admission(chosen, answers(settings, service, SystemClock(), metrics), certificate),
            _visibility(visible, shown, service, open_server),
            _kubelet(settings.candidates.virtual_nodes, service, open_server),
        ):
            await service.run(stop)


@contextlib.asynccontextmanager
async def serving(
    settings: Settings, checks: Sequence[str], revision: str, open_server: OpenManagement, started: Started | None
) -> AsyncIterator[Health]:
    """Serve the operators' endpoints, and see that the kubeconfig can be used; `started` hears when they are there."""
    from controlplane.telemetry import logger, metrics
    from controlplane.web import Health as Checks
    from controlplane.web import create_app
    from controlplane.web import serve as listen

    health = Checks(checks)
    server = await listen(create_app(health, metrics.registry), settings.http.address, settings.http.port)
    try:
        health.set("schema", True, revision)
        await check_openable(settings, open_server)
        logger(__name__).info("serving", address=server.address, port=server.port, schema=revision)
        if started is not None:
            started(server)
        yield health
    finally:
        await server.stop()


def _certificate(setting: str, certificate: str, key: str) -> Certificate | None:
    """Return the certificate that a setting names, None if it names none; `CommandFailure` if it cannot be used."""
    from controlplane.web import Certificate, CertificateError

    if not certificate:
        return None
    try:
        return Certificate(certificate, key)
    except CertificateError as error:
        raise CommandFailure(f"{setting}: {error}", Exit.CONFIGURATION) from None


@contextlib.asynccontextmanager
async def _visibility(
    chosen: VisibilitySettings, certificate: Certificate | None, service: Service, open_server: OpenManagement
) -> AsyncIterator[None]:
    """Serve Kueue's visibility API while the block runs, if there is a certificate for it."""
    from controlplane.telemetry import logger

    if certificate is None:
        yield
        return
    from controlplane.app.visibility import serving as serving_visibility

    async with serving_visibility(chosen, certificate, service, open_server) as served:
        logger(__name__).info("serving the visibility API", address=chosen.address, port=served.port)
        yield


@contextlib.asynccontextmanager
async def _kubelet(chosen: VirtualNodeSettings, service: Service, open_server: OpenManagement) -> AsyncIterator[None]:
    """Serve the kubelet API of virtual Nodes while the block runs, if there is a certificate for it."""
    from controlplane.telemetry import logger

    certificate = _certificate("candidates.virtualNodes.certificate", chosen.certificate, chosen.key)
    if certificate is None:
        yield
        return
    from controlplane.app.candidates.kubelet import serving as serving_kubelet
    from controlplane.app.candidates.kubelet import trusting
    from controlplane.web import CertificateError

    try:
        authority = trusting(certificate, chosen.client_authority)
    except CertificateError as error:
        raise CommandFailure(f"candidates.virtualNodes.clientAuthority: {error}", Exit.CONFIGURATION) from None
    async with serving_kubelet(chosen, authority, service, open_server) as served:
        logger(__name__).info("serving the kubelet API of virtual nodes", address=chosen.address, port=served.port)
        yield


@contextlib.asynccontextmanager
async def _admission(
    chosen: Endpoint | None, answers: Mapping[str, Answer], certificate: Certificate | None
) -> AsyncIterator[None]:
    """Serve the admission webhook while the block runs, if there is a certificate for it."""
    from controlplane.telemetry import logger
    from controlplane.web import serve_webhook

    if chosen is None or certificate is None:
        yield
        return
    webhook = await serve_webhook(answers, certificate, chosen.address, chosen.port, chosen.section)
    logger(__name__).info("serving admission", address=chosen.address, port=webhook.port, paths=sorted(answers))
    try:
        yield
    finally:
        await webhook.stop()


async def open_management(settings: Settings) -> ApiServer:
    """Return the way to the management cluster that the settings name; `KubeconfigError` if it cannot be used."""
    from controlplane.clusters.management_access import from_kubeconfig, in_cluster
    from controlplane.controllers.connectivity.events import MANAGEMENT

    path, identity = settings.management.kubeconfig, settings.leader.identity
    if path:
        return await from_kubeconfig(MANAGEMENT, path, settings.management.context or None, identity=identity)
    return in_cluster(MANAGEMENT, identity=identity)


async def check_openable(settings: Settings, open_server: OpenManagement, option: str = "") -> None:
    """Find out now whether the kubeconfig can be used. Whether the cluster answers is another matter, for which the
    service waits. `option` is that of a verb which names the kubeconfig in the place of the setting.
    """
    from controlplane.clusters.kubeconfig import KubeconfigError

    try:
        server = await open_server()
    except KubeconfigError as error:
        raise CommandFailure(_refused(settings, error.message, option), Exit.CONFIGURATION) from None
    await server.close()


def _refused(settings: Settings, message: str, option: str) -> str:
    named = option or "management.kubeconfig"
    path, context = settings.management.kubeconfig, settings.management.context
    said = message.removeprefix("load client config failed: ")
    if not path:
        unread = "; KUBECONFIG is not read here" if os.environ.get("KUBECONFIG") else ""
        return (
            f"there is no management cluster ({said}): set {named}{' or management.kubeconfig' if option else ''}, or "
            f"run in a pod with a service account{unread}"
        )
    if os.pathsep not in path and not Path(path).expanduser().is_file():
        return f"{named}: there is no file {path}"
    hint = f'; is "{context}" (management.context) one of its contexts?' if context else ""
    return f"{named}: {path} cannot be used: {said}{hint}"
