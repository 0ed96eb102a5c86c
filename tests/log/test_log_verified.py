"""To which hosts a connection would go without the server's certificate being checked."""

from __future__ import annotations

from controlplane.log.connect import unverified_host
from tests.support.rows import each


@each(
    ("url", "environ", "host"),
    [
        ("postgresql://u:p@db.example.com/d", {}, "db.example.com"),
        ("postgresql://u:p@db.example.com/d?sslmode=require", {}, "db.example.com"),
        ("postgresql://u:p@db.example.com/d?sslmode=verify-full", {}, ""),
        ("postgresql://u:p@db.example.com/d?sslmode=verify-ca", {}, ""),
        ("postgresql://u:p@db.example.com/d?sslrootcert=system", {}, ""),
        ("postgresql://u:p@db.example.com/d", {"PGSSLMODE": "verify-full"}, ""),
        ("postgresql://u:p@db.example.com/d?sslmode=prefer", {"PGSSLMODE": "verify-full"}, "db.example.com"),
        ("postgresql://u@localhost/d", {}, ""),
        ("postgresql://u@127.0.0.8/d", {}, ""),
        ("postgresql://u@[::1]:5433/d", {}, ""),
        ("postgresql://u@10.0.0.1/d", {}, "10.0.0.1"),
        ("postgresql://u@/d?host=%2Fvar%2Frun%2Fpostgresql", {}, ""),
        ("postgresql:///d", {}, ""),
        ("postgresql:///d", {"PGHOST": "db"}, "db"),
        ("postgresql+psycopg://u@/d?host=localhost&host=db2", {}, "db2"),
    ],
)
def test_another_host_that_is_not_verified_is_named(url: str, environ: dict[str, str], host: str) -> None:
    assert unverified_host(url, environ) == host
