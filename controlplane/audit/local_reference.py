"""The part of `docs/reference/events.md` about one's own cluster: PodGroups, and the pods of PipelineRuns.

In: the event classes and the tables of reasons. Out: Markdown, for `controlplane.audit.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from controlplane.audit.group_words import GROUP_EVENTS, GROUP_REASONS
from controlplane.audit.run_words import RUN_EVENTS, RUN_REASONS
from controlplane.audit.sentences import Sentence
from controlplane.controllers.coscheduling import events as coscheduling
from controlplane.controllers.coscheduling.feasibility.events import JUDGING_EVENTS
from controlplane.controllers.podgroups import events as podgroups
from controlplane.log.event import Event

STREAMS = """\
| `member/NS/NAME` | a pod as a member of a PodGroup |
| `podgroup/NS/NAME` | a PodGroup |
| `owner/NS/APIVERSION/KIND/NAME/UID` | an owner of pods, as one reference names it |
| `podgroup-rules` | the rules of ownership |
| `podgroup-room` | what the cluster has and what is used |
| `pipelinerun/NS/NAME` | a PipelineRun where it runs, and everything that was made for it |
| `node/NAME` | a node, as far as placeholders care |
| `coscheduling/flags`, `coscheduling/defaults` | Tekton's ConfigMaps |
| `fit/KIND/NS/NAME` | a PipelineRun that is to go to a worker, and the judgements on it |
| `worker/CLUSTER/…` | a node, storage class or placeholder of a worker, its Tekton's flags, or an object that was read there |
"""
"""Rows of the table of streams."""

_R = TypeVar("_R", bound=StrEnum)
Table = Callable[[Sequence[str], Iterable[tuple[type[Event], *tuple[str, ...]]]], str]


def parts(table: Table, doc: Callable[[type[Event]], str], fields: Callable[[type[Event]], str]) -> Iterable[str]:
    """Yield the sections, made with the page's own tables."""
    yield from _section(
        "PodGroups", GROUP_EVENTS, podgroups.GroupDecision, podgroups.GroupWrite, GROUP_REASONS, (table, doc, fields)
    )
    yield from _section(
        "Pods of PipelineRuns",
        RUN_EVENTS,
        coscheduling.CoschedulingDecision,
        coscheduling.CoschedulingWrite,
        RUN_REASONS,
        (table, doc, fields),
    )
    yield "\n## Where PipelineRuns fit\n\nThe reasons of a judgement are those of the section before.\n\n"
    yield table(("event", "says"), ((event, doc(event)) for event in JUDGING_EVENTS))
    yield "\nFields:\n\n"
    yield from (fields(event) for event in JUDGING_EVENTS)


def _section(
    title: str,
    events: Sequence[type[Event]],
    decision: type[Event],
    write: type[Event],
    reasons: Mapping[_R, Sentence],
    with_: tuple[Table, Callable[[type[Event]], str], Callable[[type[Event]], str]],
) -> Iterable[str]:
    table, doc, fields = with_
    decisions = [event for event in events if issubclass(event, decision)]
    yield f"\n## {title}\n\n"
    yield table(("event", "says"), ((event, doc(event)) for event in events if event not in decisions))
    yield "\nDecisions:\n\n"
    rows = ((event, doc(event), _where(event) if issubclass(event, write) else "none") for event in decisions)
    yield table(("event", "decides", "write"), rows)
    yield "\nReasons:\n\n| reason | because |\n|---|---|\n"
    yield from (f"| `{reason}` | {sentence.means} |\n" for reason, sentence in reasons.items())
    yield "\nFields:\n\n"
    yield from (fields(event) for event in events)


def _where(event: type[Event]) -> str:
    return str(getattr(event, "WHERE", ""))
