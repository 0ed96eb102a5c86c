"""What a Job's status has told is not taken back."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import JOBS
from tests.simulation.contract.client import Api, job
from tests.simulation.contract.test_contract_writes import CONDITION


class TestStatusOfAJob:
    """What a Job's status has told is not taken back."""

    async def told(self, api: Api, *, suspend: bool = False, **status: object) -> None:
        await api.create(JOBS, job("a", suspend=suspend))
        (await api.patch(JOBS, "a", {"status": status}, subresource="status")).ok()

    @pytest.mark.parametrize("counter", ["failed", "succeeded"])
    async def test_a_counter_does_not_fall(self, api: Api, counter: str) -> None:
        await self.told(api, **{counter: 2})
        less = await api.patch(JOBS, "a", {"status": {counter: 1}}, subresource="status")
        less.refused(422, "Invalid", f"status.{counter}: Invalid value: 1: cannot decrease the {counter} counter")
        (await api.patch(JOBS, "a", {"status": {counter: 3}}, subresource="status")).ok()

    @pytest.mark.parametrize("other", ["2026-01-01T00:00:09Z", None])
    async def test_the_start_of_a_job_that_is_not_suspended_stays(self, api: Api, other: str | None) -> None:
        await self.told(api, startTime="2026-01-01T00:00:00Z")
        later = await api.patch(JOBS, "a", {"status": {"startTime": other}}, subresource="status")
        later.refused(
            422, "Invalid", "status.startTime: Invalid value: ", "field is immutable for unsuspended job once set"
        )

    async def test_the_start_of_a_suspended_job_goes(self, api: Api) -> None:
        await self.told(api, suspend=True, startTime="2026-01-01T00:00:00Z")
        (await api.patch(JOBS, "a", {"status": {"startTime": None}}, subresource="status")).ok()

    @pytest.mark.parametrize("kind", ["SuccessCriteriaMet", "FailureTarget"])
    async def test_what_was_said_of_its_end_stays(self, api: Api, kind: str) -> None:
        await self.told(api, conditions=[CONDITION | {"type": kind}])
        gone = await api.patch(JOBS, "a", {"status": {"conditions": []}}, subresource="status")
        gone.refused(422, "Invalid", "status.conditions: Invalid value: ", f"{kind}=True condition")
