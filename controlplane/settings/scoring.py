"""The settings of the dispatcher that scores clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from controlplane.kube.selectors import InvalidSelector, parse_selector
from controlplane.settings.rules import Checked, Choice, Duration, Integer, Items, Setting, Text
from controlplane.values import Value

_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL = Text(what="the key of a label, such as `example.com/region`", pattern=_KEY, longest=317, empty=True)
_WEIGHT = Integer(least=0, most=100)


def selector(text: str) -> str:
    """Return the text if it is a label selector; `ValueError` otherwise."""
    try:
        parse_selector(text)
    except InvalidSelector as problem:
        raise ValueError(str(problem).partition(": ")[2]) from None
    return text


class Scoring(Value, rename="camel"):
    """How the dispatcher `controlplane.dev/multikueue-dispatcher-scored` filters and orders clusters. Labels are those
    of the MultiKueueClusters."""

    cluster_selector: Annotated[
        str,
        Setting(
            Checked("label selector such as `env=prod,region in (eu,us)`, or empty", selector),
            "Which clusters may be asked at all. The annotation `controlplane/cluster-selector` on a job narrows it.",
        ),
    ] = ""
    cost_label: Annotated[
        str, Setting(_LABEL, "The label with a cluster's cost, a number; the cheapest is best, one without it worst.")
    ] = ""
    cost_weight: Annotated[int, Setting(_WEIGHT, "What the cost counts beside the other rules. 0: nothing.")] = 1
    locality_labels: Annotated[
        tuple[str, ...],
        Setting(
            Items("keys of labels", _KEY, 317),
            "Labels that a job and the clusters near its data have in common; the more are equal, the better.",
        ),
    ] = ()
    locality_weight: Annotated[int, Setting(_WEIGHT, "What locality counts beside the other rules. 0: nothing.")] = 1
    latency_weight: Annotated[
        int,
        Setting(_WEIGHT, "What it counts how fast a cluster admitted lately, by the log. 0: nothing."),
    ] = 1
    rejection_weight: Annotated[
        int,
        Setting(_WEIGHT, "What it counts which share of Workloads a cluster refused lately, by the log. 0: nothing."),
    ] = 1
    flavors_weight: Annotated[
        int,
        Setting(
            _WEIGHT,
            "What it counts whether the quota that is left in a worker's ClusterQueue is enough. 0: nothing, and the "
            "queues of workers are not watched for it.",
        ),
    ] = 0
    window: Annotated[
        timedelta, Setting(Duration(), "For how long a cluster's answers count, the last hundred at most.")
    ] = timedelta(hours=1)
    spread_label: Annotated[
        str,
        Setting(
            _LABEL,
            "The label over whose values the Workloads of a ClusterQueue are spread, such as a region; "
            "`metadata.name`: over the clusters.",
        ),
    ] = ""
    spread_max_skew: Annotated[
        int,
        Setting(
            Integer(least=1, most=1_000_000),
            "How many Workloads more one value may have than another, as `maxSkew` of pods.",
        ),
    ] = 1
    spread_when_unsatisfiable: Annotated[
        str,
        Setting(
            Choice(("ScheduleAnyway", "DoNotSchedule")),
            "Whether a cluster where the skew would be greater is asked last, or not at all.",
        ),
    ] = "ScheduleAnyway"
    spread_weight: Annotated[int, Setting(_WEIGHT, "What the spread counts beside the other rules. 0: nothing.")] = 1
