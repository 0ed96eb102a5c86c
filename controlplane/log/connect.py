"""One way to open a psycopg connection to the log: autocommit, bounded, and with no more rights than the service's role has."""

from __future__ import annotations

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import TupleRow as Row

from controlplane.log.schema import libpq_url


def lost(error: psycopg.Error) -> bool:
    """Whether the server is away, restarting, out of disk or no longer the primary: what time heals, unlike a bad statement."""
    state = error.sqlstate or ""
    if state.startswith("54"):  # a limit of the program: the same again would be refused again
        return False
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or state == "25006"


def first_line(error: psycopg.Error) -> str:
    """Return the first line of what the server or the driver said."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class Database(msgspec.Struct, frozen=True):
    """Where the log is and as whom to use it. `role` is taken with SET ROLE after the login; empty keeps the login's own rights."""

    url: str
    role: str = ""
    connect_timeout: int = 5

    def __repr__(self) -> str:
        return f"Database(role={self.role!r})"

    async def connect(self, application: str) -> psycopg.AsyncConnection[Row]:
        """Open a connection; raises psycopg's errors."""
        connection = await psycopg.AsyncConnection.connect(
            libpq_url(self.url),
            autocommit=True,
            prepare_threshold=1,
            connect_timeout=self.connect_timeout,
            application_name=f"controlplane {application}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
        if self.role:
            try:
                await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(self.role)))
            except BaseException:
                await connection.close()
                raise
        return connection
