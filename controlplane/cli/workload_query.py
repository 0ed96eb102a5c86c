"""Which Workloads `controlplane workloads` was asked for, and whether one of them is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.cli.history import is_in, is_on

if TYPE_CHECKING:
    from controlplane.kube.selectors import LabelSelector


class Listed(NamedTuple):
    """A Workload as the JSON has it, and its job's labels, as far as the log has them."""

    one: dict[str, Any]
    labels: Mapping[str, str]


class WorkloadQuery(NamedTuple):
    """Which Workloads are asked for; None and () are no condition. `finished`: also those that have finished."""

    namespace: str | None
    cluster: str | None
    queue: str | None
    states: tuple[str, ...]
    finished: bool
    begin: datetime | None
    end: datetime | None
    labels: LabelSelector | None

    def fits(self, listed: Listed) -> bool:
        """Whether a Workload is asked for."""
        one = listed.one
        return (
            has_state(one, self.states, self.finished)
            and is_on(one, self.cluster)
            and is_in(one, self.queue)
            and self.is_in_time(one)
            and (self.labels is None or self.labels.matches(listed.labels))
        )

    def is_in_time(self, one: dict[str, Any]) -> bool:
        """Whether a Workload was first seen in the time that is asked for."""
        return (self.begin is None or one["since"] >= self.begin) and (self.end is None or one["since"] < self.end)


def has_state(one: dict[str, Any], states: tuple[str, ...], finished: bool) -> bool:
    """Whether a Workload is in one of some states; of no states, whether it has not finished, or those may be shown."""
    if states:
        return one["state"] in states or one["result"] in states
    return finished or one["state"] != "Finished"
