"""Each server that the database's URL names is asked for itself: one that does not answer says nothing about the
others."""

from __future__ import annotations

import socket
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from controlplane.doctor.replication import members
from controlplane.log.schema import libpq_url


def several(url: str, *others: int, name: str = "") -> str:
    """The URL of a server and of others at these ports of loopback; `name`: of another database there."""
    given = conninfo_to_dict(libpq_url(url))
    own_host, own_port = str(given.pop("host")), str(given.pop("port", 5432))
    database = name or str(given.pop("dbname"))
    hosts, ports = [own_host, *["127.0.0.1"] * len(others)], [own_port, *map(str, others)]
    more = {
        "user": given["user"],
        "password": given.get("password") or "none",
        "host": ",".join(hosts),
        "port": ",".join(ports),
    }
    return f"postgresql:///{database}?{urlencode(more, safe='/,')}"


async def test_one_that_does_not_answer_says_nothing_about_the_other(database_url: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        closed = nobody.getsockname()[1]
        one, other = await members(several(database_url, closed), 5.0)
    assert (one.writes, one.silent) == (True, "")
    assert one.timeline >= 1
    assert (other.name, other.writes) == (f"127.0.0.1:{closed}", False)
    assert "refused" in other.silent


async def test_one_that_takes_connections_and_says_nothing_is_not_waited_for(database_url: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        one, other = await members(several(database_url, mute.getsockname()[1]), 2.0)
    assert (one.writes, one.silent) == (True, "")
    assert other.silent


async def test_a_url_of_one_server_has_nothing_to_tell(database_url: str) -> None:
    assert await members(database_url, 5.0) == []


async def test_a_login_that_one_server_refuses_is_told_of_that_one(database_url: str) -> None:
    wrong = several(database_url, 1, name="no_such_database")
    one, _ = await members(wrong, 5.0)
    assert "no_such_database" in one.silent
    assert "\n" not in one.silent
