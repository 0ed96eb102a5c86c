"""The settings of Kueue's metrics, which Kueue has under `metrics` in its configuration."""

from __future__ import annotations

from typing import Annotated

from controlplane.settings.custom_metric_labels import CustomLabel, CustomLabelRules
from controlplane.settings.rules import Checked, Setting
from controlplane.settings.scoring import selector
from controlplane.settings.words import YES_NO
from controlplane.values import Value


class QuotaMetricsSettings(Value, rename="camel"):
    """Which of Kueue's metrics are reported; what Kueue calls `metrics` in its configuration."""

    cluster_queue_resources: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the metrics have quotas, reservations, usage and pending requests of each "
            "ClusterQueue, flavor and resource; Kueue's `metrics.enableClusterQueueResources`.",
        ),
    ] = "no"
    local_queues: Annotated[
        str,
        Setting(
            YES_NO,
            "With `builtin`: whether the metrics have each LocalQueue too; Kueue's `metrics.localQueueMetrics.enable`.",
        ),
    ] = "yes"
    local_queue_selector: Annotated[
        str,
        Setting(
            Checked("label selector of LocalQueues, such as `team in (a,b),!test`, or empty", selector),
            "With `builtin`: which LocalQueues the metrics have, by their labels; Kueue's "
            "`metrics.localQueueMetrics.localQueueSelector`. Empty: all of them.",
        ),
    ] = ""
    custom_labels: Annotated[
        tuple[CustomLabel, ...],
        Setting(
            CustomLabelRules(),
            "With `builtin`: labels and annotations of ClusterQueues, LocalQueues, Cohorts and Workloads that Kueue's "
            "metrics have as `custom_NAME`; Kueue's `metrics.customLabels`, there behind the gate "
            "`CustomMetricLabels`. Workloads get those that are read of them from their jobs.",
        ),
    ] = ()
