"""Why a ClusterQueue's quota, or what is said of it, is changed: a closed set, with a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from controlplane.runtime.phrases import Sentence


class QuotaReason(StrEnum):
    """The reasons of decisions; parameters are fields of the decision's event."""

    WORKERS_CHANGED = "WorkersChanged"
    CONDITION_CHANGED = "QuotaConditionChanged"
    NOT_OF_MULTIKUEUE = "NotOfMultiKueue"


REASONS: Mapping[QuotaReason, Sentence] = {
    QuotaReason.WORKERS_CHANGED: Sentence(
        "The nominal quotas are not the sum of those of the workers' ClusterQueues.",
        "the nominal quotas are not the sum of those of the workers",
    ),
    QuotaReason.CONDITION_CHANGED: Sentence(
        "The condition `MultiKueueManagerQuotaAutomation` does not say how automation stands.",
        "the condition does not say how quota automation stands",
    ),
    QuotaReason.NOT_OF_MULTIKUEUE: Sentence(
        "The ClusterQueue has no admission check of MultiKueue any more.",
        "it has no admission check of MultiKueue any more",
    ),
}
