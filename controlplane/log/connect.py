"""One way to open a psycopg connection to the log: autocommit, bounded in time, and with no more rights than the
service's role has.

Here too: what an error of the database means. Only what is wrong with the content of a statement is the caller's fault;
everything else (a right that was revoked, a function that is missing during a rollout, a full disk, a server that
restarts) is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
from collections.abc import Iterator, Mapping

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow as Row

from controlplane.log import timeline
from controlplane.log.schema import ENCODING, SESSION, libpq_url

# SQLSTATE classes: data exceptions, and limits of the program (nesting, sizes), which the same content would meet
# again.
_OF_THE_CONTENT = ("22", "54")


class RoleMissing(psycopg.OperationalError):
    """There is no such role, as in a database that was restored without its roles. That says nothing of what is asked
    of it.
    """


def unacceptable(error: Exception) -> bool:
    """Whether the content of a statement was refused, by the server or by the driver before it was sent: waiting does
    not heal that.
    """
    if not isinstance(error, psycopg.Error):
        return isinstance(error, (TypeError, ValueError))
    if error.sqlstate is None:
        return isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError))
    return error.sqlstate[:2] in _OF_THE_CONTENT


def unverified_host(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the other host that a connection would go to without checking its certificate, as libpq reads URL and
    environment; else "".

    Loopback and unix sockets need no check. `verify-ca` trusts whoever has a certificate of that authority: its owner's
    to judge."""
    given = conninfo_to_dict(libpq_url(url))
    system = (given.get("sslrootcert") or environ.get("PGSSLROOTCERT")) == "system"
    mode = given.get("sslmode") or environ.get("PGSSLMODE") or ("verify-full" if system else "prefer")
    if mode in ("verify-ca", "verify-full"):
        return ""
    hosts = given.get("host") or given.get("hostaddr") or environ.get("PGHOST") or environ.get("PGHOSTADDR") or ""
    return next((host for host in str(hosts).split(",") if not _here(host)), "")


def _here(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def first_line(error: psycopg.Error) -> str:
    """Return the first line of what the server or the driver said."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextlib.contextmanager
def bounded(connection: psycopg.AsyncConnection[Row], seconds: float) -> Iterator[None]:
    """End whatever waits for an answer on a connection after `seconds`: psycopg then raises `OperationalError`.

    The socket is shut down instead of the waiting task being cancelled: on cancellation psycopg asks the server to stop
    the statement and waits for its answer, which never comes from a server that is stopped."""
    late = asyncio.get_running_loop().call_later(seconds, timeline.shut, connection)
    try:
        yield
    finally:
        late.cancel()


class LogConnection(psycopg.AsyncConnection[Row]):
    """A connection on which nobody cancels a statement: who waits for one no longer hangs up.

    psycopg would ask the server to cancel it. A server whose commit waits for a synchronous standby takes that for
    leave not to wait: then others see, and act on, what no standby has."""

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:
        """Hang up."""
        timeline.shut(self)


class Database(msgspec.Struct, frozen=True):
    """Where the log is and as whom to use it. `role` is taken with SET ROLE after the login; empty keeps the login's
    own rights.

    `connect_timeout` and `statement_timeout` are seconds: how long the server may take to let us in, and to answer a
    statement."""

    url: str
    role: str = ""
    connect_timeout: int = 5
    statement_timeout: float = 10.0

    def __repr__(self) -> str:
        return f"Database(role={self.role!r})"

    async def connect(self, application: str) -> psycopg.AsyncConnection[Row]:
        """Open a connection; raises psycopg's errors, and `RoleMissing`, which is one.

        Of several servers that the URL names, an old primary that came back beside the newest one is passed over
        (`controlplane.log.timeline`); where there is no other, `OldPrimary`."""
        conninfo = libpq_url(self.url)
        try:
            return await self._open(conninfo, application)
        except timeline.OldPrimary as old:
            for member in timeline.members(conninfo):
                with contextlib.suppress(psycopg.OperationalError):
                    return await self._open(member, application)
            raise old from None

    async def _open(self, conninfo: str, application: str) -> psycopg.AsyncConnection[Row]:
        connection = await LogConnection.connect(
            conninfo,
            autocommit=True,
            client_encoding=ENCODING,
            prepare_threshold=1,
            connect_timeout=self.connect_timeout,
            application_name=f"controlplane {application}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
        try:
            with bounded(connection, self.connect_timeout):
                await self._set_up(connection)
        except psycopg.errors.InvalidParameterValue as error:
            await connection.close()
            raise RoleMissing(first_line(error)) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _set_up(self, connection: psycopg.AsyncConnection[Row]) -> None:
        limit = sql.Literal(f"{round(self.statement_timeout * 1000)}ms")
        setup: list[sql.Composable] = [
            sql.SQL(SESSION),
            sql.SQL("SET statement_timeout TO {}").format(limit),
            sql.SQL("SET idle_in_transaction_session_timeout TO {}").format(limit),
        ]
        if self.role:
            setup.append(sql.SQL("SET ROLE {}").format(sql.Identifier(self.role)))
        await connection.execute(sql.SQL("; ").join(setup), prepare=False)
        primary = await timeline.ask(connection)
        if primary is not None:
            if not timeline.meet(primary):
                raise timeline.over(connection, primary)
            timeline.keep(connection, primary)

    async def survey(self) -> None:
        """Look at each server that the URL names, if it names several, so that the newest primary among them is known.
        One that does not answer is left out."""
        members = timeline.members(libpq_url(self.url), target_session_attrs="any")
        for member in members if len(members) > 1 else ():
            with contextlib.suppress(psycopg.Error):
                await (await self._open(member, "survey")).close()
