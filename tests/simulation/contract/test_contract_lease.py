"""A Lease has one holder at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.lease import FREE, ClusterLease, LeaseHolder
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import LEASES, Json, Kind, ObjectRef
from controlplane.runtime.claims import AnotherLog, ClaimTexts, ClusterClaims
from controlplane.runtime.gate import Gate
from tests.clusters.clocks import ManualClock
from tests.runtime.bench import ManualClock as StandingClock
from tests.simulation.contract.client import Api
from tests.support.waiting import PATIENCE

NAME = "controlplane.test"
SECONDS = 30.0
TEXTS = ClaimTexts("the cluster", "one log acts there", "leases.yaml")


@pytest.fixture
async def server(api: Api) -> AsyncIterator[Transport]:
    config = ClientConfig(server=api.url, token=api.token, verify=api.simulated)
    transport = Transport("server", config)
    yield transport
    await transport.close()


def lease(api: Api, holder: str, process: str, clock: ManualClock) -> ClusterLease:
    made = ClusterLease(ObjectRef(LEASES, api.namespace, NAME), process, clock, SECONDS)
    made.holder = holder
    return made


async def stored(api: Api) -> Json:
    return (await api.get(LEASES, NAME)).ok()


async def test_who_comes_first_has_it_until_it_is_let_go(api: Api, server: Transport) -> None:
    clock = ManualClock()
    one, two = lease(api, "log-one", "pod-one", clock), lease(api, "log-two", "pod-two", clock)
    assert await two.other(server) == FREE
    assert await one.renew(server) == FREE
    held = LeaseHolder("log-one", "pod-one")
    assert (await two.other(server), await two.renew(server)) == (held, held)
    assert await one.renew(server) == FREE
    await one.release(server)
    assert "holderIdentity" not in (await stored(api))["spec"]
    assert await two.renew(server) == FREE
    spec = (await stored(api))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("log-two", 1, 30)
    assert await one.renew(server) == LeaseHolder("log-two", "pod-two")


async def test_a_holder_that_does_not_renew_it_for_its_duration_has_gone(api: Api, server: Transport) -> None:
    clock = ManualClock()
    one, two = lease(api, "log-one", "pod-one", clock), lease(api, "log-two", "pod-two", clock)
    await one.renew(server)
    assert await two.renew(server) != FREE
    clock.seconds += SECONDS - 1
    assert await two.renew(server) != FREE
    await one.renew(server)
    clock.seconds += SECONDS - 1
    assert await two.renew(server) != FREE, "it was renewed"
    clock.seconds += SECONDS
    assert await two.renew(server) == FREE
    assert await one.renew(server) == LeaseHolder("log-two", "pod-two")


async def test_the_processes_of_one_holder_take_it_from_one_another(api: Api, server: Transport) -> None:
    clock = ManualClock()
    one, other = lease(api, "log-one", "pod-one", clock), lease(api, "log-one", "pod-two", clock)
    await one.renew(server)
    assert await other.other(server) == FREE
    assert await other.renew(server) == FREE
    assert (await stored(api))["spec"]["leaseTransitions"] == 0
    assert await one.renew(server) == FREE, "which of them acts is for the log to say"


async def test_of_two_that_take_a_free_one_at_once_one_has_it(api: Api, server: Transport) -> None:
    clock = ManualClock()
    one, two = lease(api, "log-one", "pod-one", clock), lease(api, "log-two", "pod-two", clock)
    await one.renew(server)
    await one.release(server)
    found = await two._read(server)
    assert found is not None
    await one.renew(server)
    with pytest.raises(ApiError) as refused:
        await two._write(server, found["metadata"]["resourceVersion"], {})
    assert refused.value.status == 409
    assert (await stored(api))["spec"]["holderIdentity"] == "log-one"


async def test_one_that_somebody_deletes_is_made_again(api: Api, server: Transport) -> None:
    one = lease(api, "log-one", "pod-one", ManualClock())
    await one.renew(server)
    (await api.call("DELETE", LEASES.path(api.namespace, NAME))).ok()
    assert await one.renew(server) == FREE
    assert (await stored(api))["spec"]["holderIdentity"] == "log-one"


async def test_the_leases_of_a_log_that_was_killed_end_together(api: Api, server: Transport) -> None:
    clock = ManualClock()
    refs = [ObjectRef(LEASES, api.namespace, f"{NAME}.{number}") for number in range(3)]
    for ref in refs:
        gone = ClusterLease(ref, "pod-one", clock, SECONDS)
        gone.holder = "log-one"
        await gone.renew(server)
    mine = [ClusterLease(ref, "pod-two", clock, SECONDS) for ref in refs]
    told: list[str] = []

    async def identity() -> str:
        return "log-two"

    async def reach() -> Transport:
        return server

    began = clock.monotonic()
    await ClusterClaims(mine, reach, identity, clock, Gate(), told.append, TEXTS, duration=SECONDS).free()
    assert SECONDS <= clock.monotonic() - began < SECONDS * 1.5
    assert len(told) == 2, told


async def test_who_was_paused_for_longer_than_they_last_is_not_sure_of_them(api: Api, server: Transport) -> None:
    """The gate of effects was open until the next renewal, ten seconds after a paused process went on."""
    clock, gate = StandingClock(), Gate()
    one = ClusterLease(ObjectRef(LEASES, api.namespace, NAME), "pod-one", clock, SECONDS)

    async def identity() -> str:
        return "log-one"

    async def reach() -> Transport:
        return server

    claims = ClusterClaims([one], reach, identity, clock, gate, lambda why: None, TEXTS, duration=SECONDS)
    assert not claims.sure
    keeping = asyncio.create_task(claims.keep())
    async with asyncio.timeout(PATIENCE):
        while not claims.sure:
            await asyncio.sleep(0.01)
        await gate.passed()
    clock.seconds += SECONDS
    assert gate.is_open
    assert not claims.sure
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await claims.close()


async def test_one_that_was_seen_to_be_free_just_now_is_taken_without_another_look(
    api: Api, server: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read, looks = ManualClock(), server.get, 0

    async def counted(kind: Kind, namespace: str, name: str) -> Json:
        nonlocal looks
        looks += 1
        return await read(kind, namespace, name)

    monkeypatch.setattr(server, "get", counted)
    one, two, three = (lease(api, holder, "pod", clock) for holder in ("", "log-two", "log-three"))
    for other in (one, two, three):
        assert await other.other(server) == FREE
    one.holder = "log-one"  # nobody had opened the log yet
    assert (await one.renew(server), looks) == (FREE, 3)
    assert (await two.renew(server)).identity == "log-one", "what was seen has changed since"
    assert looks == 4
    await one.release(server)
    assert await three.other(server) == FREE
    clock.seconds += SECONDS / 2
    assert (await three.renew(server), looks) == (FREE, 6)
    assert (await stored(api))["spec"]["holderIdentity"] == "log-three"


async def test_what_another_log_has_one_of_is_not_kept_in_part(api: Api, server: Transport) -> None:
    clock = ManualClock()
    refs = [ObjectRef(LEASES, api.namespace, f"{NAME}.{number}") for number in range(3)]
    other = ClusterLease(refs[2], "pod-one", clock, SECONDS)
    other.holder = "log-one"
    await other.renew(server)

    async def identity() -> str:
        return "log-two"

    async def reach() -> Transport:
        return server

    mine = [ClusterLease(ref, "pod-two", clock, SECONDS) for ref in refs]
    claims = ClusterClaims(mine, reach, identity, clock, Gate(), lambda why: None, TEXTS, duration=SECONDS)
    with pytest.raises(AnotherLog, match="log-one"):
        await claims.keep()
    await claims.close()
    holders = [(await api.get(LEASES, ref.name)).ok()["spec"].get("holderIdentity") for ref in refs]
    assert holders == [None, None, "log-one"]
