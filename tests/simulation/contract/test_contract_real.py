"""Says once in every report whether the contract was also put to a real kube-apiserver."""

from __future__ import annotations

import pytest

from tests.simulation.contract import realserver
from tests.simulation.contract.client import Api


@pytest.mark.skipif(bool(realserver.missing()), reason=f"no real kube-apiserver: {realserver.missing()}")
async def test_a_real_server_is_under_contract_too(api: Api) -> None:
    version = (await api.call("GET", "/version")).ok()["gitVersion"]
    assert ("simulated" in version) is api.simulated
