"""The databases of a test run on a Citus cluster, in which the log is distributed.

In: the URL of a coordinator, with a database whose nodes are those of the cluster. Out: a `Server` that makes databases
on all nodes. To make one takes seconds, so one that a test is done with is emptied and given to the next, if its schema
is as it was."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from controlplane.log import citus, schema
from tests.support.postgres import Server

_MAKING = 0x6369747573  # "citus"
_NODES: LiteralString = "SELECT nodename, nodeport FROM pg_dist_node WHERE isactive ORDER BY groupid"
# What a test may have changed, but for rows.
_SHAPE: LiteralString = """
WITH ours AS (SELECT n.oid FROM pg_namespace n WHERE n.nspname = ANY ('{controlplane,read_models,audit,public}'))
SELECT md5(string_agg(one, ' ' ORDER BY one)) FROM (
    SELECT concat_ws(' ', p.oid, md5(p.prosrc), p.proacl, p.proconfig) FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
    UNION ALL SELECT concat_ws(' ', c.oid, c.relname, c.relacl) FROM pg_class c JOIN ours o ON o.oid = c.relnamespace
    UNION ALL SELECT concat_ws(' ', a.attrelid, a.attname, a.attisdropped) FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN ours o ON o.oid = c.relnamespace
    UNION ALL SELECT concat_ws(' ', n.oid, n.conname) FROM pg_constraint n JOIN ours o ON o.oid = n.connamespace
    UNION ALL SELECT concat_ws(' ', t.oid, t.tgname) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        JOIN ours o ON o.oid = c.relnamespace
    UNION ALL SELECT v.version_num::text FROM controlplane.alembic_version v) x (one)"""


class CitusServer(Server):
    """See the module."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._taken: dict[str, str] = {}  # by what a test calls its database: what it is called
        self._free: list[str] = []
        self._shapes: dict[str, Any] = {}
        with psycopg.connect(url) as connection:
            self._nodes: list[tuple[str, int]] = connection.execute(_NODES).fetchall()

    def create(self, database: str, template: str | None = None) -> str:
        """Create a database on all nodes; one with a template has the log, distributed."""
        if template is None:
            return self._new(database)
        if self._free:
            self._taken[database] = self._free.pop()
        else:
            with psycopg.connect(self.url) as connection:  # one at a time: roles belong to the whole server
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
                schema.upgrade(self._new(database))
                citus.distribute(self.url_of(database), 4)
            self._taken[database] = database
            self._shapes[database] = self._shape(database)
        return self.url_of(self._taken[database])

    def seal(self, database: str) -> None:
        """Nothing: no database is made as a copy of another one."""

    def drop(self, database: str) -> None:
        """Empty a database for the next test, or drop it if its schema was changed."""
        name = self._taken.pop(database, database)
        if name in self._shapes:
            try:
                if self._shapes[name] == self._shape(name):
                    self._empty(name)
                    self._free.append(name)
                    return
            except psycopg.Error:
                pass  # a table is gone, or somebody holds one
            del self._shapes[name]
        self.close(name)

    def close(self, *names: str) -> None:
        """Drop databases everywhere."""
        for name in names or [*self._free, *self._taken.values()]:
            for host, port in self._nodes:
                self._run(host, port, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _new(self, database: str) -> str:
        for host, port in self._nodes:
            self._run(host, port, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
            self._run(host, port, sql.SQL("CREATE EXTENSION citus"), dbname=database)
        url = self.url_of(database)
        (first, *others) = self._nodes
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", first)
            for node in others:
                connection.execute("SELECT citus_add_node(%s, %s)", node)
        return url

    def _run(self, host: str, port: int, statement: sql.Composable, **more: Any) -> None:
        with psycopg.connect(make_conninfo(self.url, host=host, port=port, **more), autocommit=True) as connection:
            connection.execute(statement)

    def _shape(self, database: str) -> Any:
        with psycopg.connect(self.url_of(database)) as connection:
            return connection.execute(_SHAPE).fetchone()

    def _empty(self, database: str) -> None:
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            connection.execute("SET lock_timeout = '5s'")
            cut: LiteralString = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'controlplane %'"
            )
            connection.execute(cut)
            names = sql.SQL(", ").join(sql.Identifier(*name.split(".")) for name in (*citus.TABLES, citus.EVERYWHERE))
            connection.execute(sql.SQL("TRUNCATE {}").format(names))
