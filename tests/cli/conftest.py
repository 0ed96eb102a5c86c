"""What several commands are tried on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.scheduling.stage import Cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.server.start()
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(made.server.kubeconfig(for_kubectl=True)))
    yield made
    await made.server.stop()
