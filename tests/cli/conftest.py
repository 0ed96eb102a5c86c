"""What several commands are tried on; and the program within this process, for what it says before it starts, where a
process of its own would be waited for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import yaml

from controlplane.__main__ import run
from tests.docs.cookbook import with_fleet
from tests.scheduling.stage import Cluster
from tests.support import postgres

Here = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run the program to its end, as `processes.finished` does, and leave the messages of this process as they are."""
    monkeypatch.setattr("controlplane.telemetry.configure", lambda *_: None)

    def finished(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patched:
            for name in [name for name in os.environ if name.startswith("CONTROLPLANE_")]:
                patched.delenv(name)
            for name, value in settings.items():
                patched.setenv(f"CONTROLPLANE_{name.upper()}", value)
            capsys.readouterr()
            code = run(arguments)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return finished


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.server.start()
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(made.server.kubeconfig(for_kubectl=True)))
    yield made
    await made.server.stop()


@pytest.fixture(scope="session")
def fleet_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with two days of three clusters (`tests.docs.fleet_story`), for tests that write nothing."""
    yield from with_fleet(postgres_server, migrated_template)
