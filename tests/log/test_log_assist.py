"""What an operator's word in the log promises, whoever keeps it: beside the leader, and never past it."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.log.event import Fenced, LogHead, VersionConflict
from tests.log.places import InMemory, InPostgres
from tests.log.words import request, saw


class Contract:
    """The tests; a subclass gives `open_log(name, codec)`, which opens views of one and the same keeper."""

    async def test_the_leader_goes_on(self, open_log: Any) -> None:
        leader, operator = open_log(), open_log()
        await leader.take_epoch("one")
        await leader.append(request(saw("a")))
        assert await operator.assist() == LogHead(1, 1)
        assert await operator.append(request(saw("a", 1), a=1)) == 1
        assert await leader.append(request(saw("a", 2), a=2)) == 1

    async def test_whoever_judged_an_older_state_is_refused(self, open_log: Any) -> None:
        leader, operator = open_log(), open_log()
        await leader.take_epoch("one")
        await operator.assist()
        await leader.append(request(saw("a")))
        with pytest.raises(VersionConflict):
            await operator.append(request(saw("a", 1), a=0))

    async def test_a_new_leader_fences_the_operator_off_until_he_looks_again(self, open_log: Any) -> None:
        operator, leader = open_log(), open_log()
        await leader.take_epoch("one")
        await operator.assist()
        await open_log().take_epoch("two")
        with pytest.raises(Fenced):
            await operator.append(request(saw("a")))
        assert (await operator.assist()).epoch == 2
        assert await operator.append(request(saw("a"))) == 1


class TestMemoryLog(InMemory, Contract):
    pass


class TestPostgresLog(InPostgres, Contract):
    pass
