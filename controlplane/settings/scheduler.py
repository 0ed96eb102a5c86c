"""The settings of the scheduler beside a target cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from controlplane.settings.rules import Duration, Setting
from controlplane.settings.words import CLOCK_SKEW, FILE, LOG_NAME, SCHEDULER_NAME, YES_NO
from controlplane.values import Value


class SchedulerSettings(Value, rename="camel"):
    """What `controlplane scheduler run` schedules, and how."""

    config: Annotated[
        str,
        Setting(
            FILE,
            "The KubeSchedulerConfiguration (YAML). Empty: one profile `controlplane` with the default plugins.",
        ),
    ] = ""
    log: Annotated[
        str,
        Setting(
            LOG_NAME,
            "The name of the scheduler's log in the database. Each target cluster's scheduler has one of its own.",
        ),
    ] = "scheduler"
    candidate_profile: Annotated[
        str,
        Setting(
            replace(SCHEDULER_NAME, empty=True),
            "The profile that places the Pods of Candidates. Empty: the first one.",
        ),
    ] = ""
    take_candidates: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether the Candidates of the cluster may be this scheduler's. They are one log's: of several schedulers "
            "beside one cluster, each with profiles of its own, the first one has them, and another one once nobody "
            "does. `no` leaves them to others.",
        ),
    ] = "yes"
    reservation_ttl: Annotated[
        timedelta,
        Setting(
            Duration(most=timedelta(minutes=15)),
            "How long a node is held for a candidate that its source has not permitted to bind.",
        ),
    ] = timedelta(seconds=30)
    clock_skew: Annotated[
        timedelta,
        Setting(
            CLOCK_SKEW,
            "By how much a source's clock may differ from this one, plus the time that a binding may be on its way: "
            "so long before the end of its lease no binding is begun.",
        ),
    ] = timedelta(seconds=5)

    @property
    def takes_candidates(self) -> bool:
        """Whether the Candidates of the cluster are this scheduler's."""
        return self.take_candidates == "yes"
