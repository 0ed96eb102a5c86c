"""Where workers' kubeconfigs come from, while Secrets may be read, and while not."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from controlplane.clusters.kubeconfig import KubeconfigError
from controlplane.clusters.protocol import Change, Off, Synced
from controlplane.kube.kinds import SECRETS
from controlplane.runtime.secrets import Secrets

FORBIDDEN = Off(SECRETS, "Forbidden", "forbidden")
LISTED = Synced(SECRETS, "9", 1, gap=False)


def shown(name: str, content: bytes) -> Change:
    data = {"kubeconfig": base64.b64encode(content).decode()}
    body: dict[str, Any] = {"metadata": {"namespace": "kueue-system", "name": name, "uid": name}, "data": data}
    return Change("listed", SECRETS, body, "7")


async def test_who_asked_while_secrets_were_forbidden_hears_when_they_can_be_read_again() -> None:
    """The Secret itself has not changed meanwhile, so nothing else would tell."""
    heard: list[str] = []
    secrets = Secrets(heard.append)
    await secrets("@management", [shown("w1", b"one"), shown("w2", b"two"), LISTED, FORBIDDEN])
    heard.clear()
    with pytest.raises(KubeconfigError, match="cannot be read: forbidden"):
        await secrets.read("w1")
    await secrets("@management", [FORBIDDEN])
    assert heard == []
    await secrets("@management", [shown("w1", b"one"), shown("w2", b"two"), LISTED])
    assert heard == ["w1"]
    assert await secrets.read("w1") == b"one"
    await secrets("@management", [LISTED])
    assert heard == ["w1"]
