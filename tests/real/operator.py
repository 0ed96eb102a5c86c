"""An operator who types the commands of a page of docs/, as they are, in what a clone has of the repository.

In: a page, a `Fleet`, and an empty PostgreSQL server. Out: what the commands print. What a page leaves to its reader,
the address and the passwords of the database, is filled in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.local.postgres import EmbeddedPostgres
from tests.deploy.manifests import ROOT
from tests.real.fleet import MANAGEMENT, WHY_NOT, WORKER, Fleet, fleet
from tests.real.node import Container
from tests.support import postgres

WHY = WHY_NOT or ("" if shutil.which("psql") else "psql is not there")
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
DATABASE = re.compile(r"postgresql://(\w+):…@db\.example\.com/controlplane\?[^']*")
AUTHORITY = "create configmap controlplane-database-ca"  # the test's server is on loopback and has no certificate


class Page:
    """A page of docs/, or a part of one by the beginning of its title."""

    def __init__(self, path: str, title: str = "") -> None:
        text = (ROOT / "docs" / path).read_text()
        found = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL) if title else None
        assert found is not None or not title, title
        self._text = found.group(0) if found is not None else text

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of a language."""
        return [one["text"] for one in BLOCK.finditer(self._text) if one["language"] == language]

    def commands(self, *, to: str = "") -> list[str]:
        """Return what the reader types, up to the command that begins with `to`."""
        every = [line[2:] for one in self.blocks("console") for line in one.splitlines() if line.startswith("$ ")]
        last = next((place for place, command in enumerate(every) if to and command.startswith(to)), len(every))
        return [command for command in every[:last] if AUTHORITY not in command]


class Operator:
    """Types commands in the folder of a clone, with a kubeconfig of both clusters. `environment` is what was
    exported."""

    def __init__(self, given: Fleet, url: str, folder: Path) -> None:
        self.fleet, self.url, self.folder = given, urlsplit(url), folder
        self.environment: dict[str, str] = {}

    def types(self, command: str, status: int = 0) -> str:
        """Run one command of the page; return what it printed. It must end with a status."""
        if r"\password" in command:
            return self._passwords()
        text = DATABASE.sub(lambda match: self.database(match[1]), command)
        environment = os.environ | {
            "KUBECONFIG": str(self.fleet.path),
            "PGHOST": str(self.url.hostname),
            "PGPORT": str(self.url.port),
            "PGUSER": str(self.url.username),
            "PGPASSWORD": str(self.url.password),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **self.environment,
        }
        done = subprocess.run(
            ["bash", "-euc", text], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _passwords(self) -> str:
        """Do what `\\password` does, which asks at a terminal."""
        words = [f"ALTER ROLE {role} PASSWORD 'secret'" for role in ("controlplane_owner", "controlplane_service")]
        return self.types(" ".join(["psql", *(f'-c "{one}"' for one in words), "postgres"]))

    def database(self, role: str) -> str:
        """Return the URL of the test's database for a login."""
        return f"postgresql://{role}:secret@{self.url.hostname}:{self.url.port}/controlplane"

    def container(self, namespace: str, kind: str, name: str, context: str = MANAGEMENT) -> Container:
        """Return what a kubelet of a cluster would run of a workload that was applied."""
        found = self.fleet.get(kind, name, namespace=namespace, context=context)
        assert found is not None
        kubectl, config = partial(self.fleet.kubectl, context=context), self.fleet.kubeconfigs[context]
        folder = self.folder / "nodes" / context / name
        return Container(kubectl, config, namespace, found["spec"]["template"], folder)


@contextmanager
def operator_of(folder: Path, names: Sequence[str] = (MANAGEMENT, WORKER)) -> Iterator[Operator]:
    """Have a fleet, a PostgreSQL server with nothing in it, and somebody who types."""
    with ExitStack() as stack:
        data = stack.enter_context(postgres.folder())
        server = EmbeddedPostgres(data, port=0)
        stack.callback(server.shutdown)
        server.launch()
        clone = folder / "clone"
        for name in ("deploy", "examples"):
            shutil.copytree(ROOT / name, clone / name)
        found = Operator(stack.enter_context(fleet(folder, names)), server.tcp_url, clone)
        found.types("psql -c 'DROP DATABASE controlplane' postgres")  # the embedded server's own
        yield found
