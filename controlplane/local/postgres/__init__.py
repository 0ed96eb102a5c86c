"""A PostgreSQL of our own, for a machine that has none: the demo, `controlplane up`, the tests.

In: a folder. Out: a URL. The server is a child of this process and dies with it, even if it is killed; its data stays
in the folder and the next start goes on with it. Only binaries come from elsewhere (`binaries`); starting, stopping and
dropping root's rights is ours."""

from __future__ import annotations

from controlplane.local.postgres.errors import EmbeddedError
from controlplane.local.postgres.server import EmbeddedPostgres

__all__ = ["EmbeddedError", "EmbeddedPostgres"]
