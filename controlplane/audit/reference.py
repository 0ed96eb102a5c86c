"""`docs/reference/events.md`, written from the event classes and the table of reasons: `python -m
controlplane.audit.reference`.

In: the classes with their docstrings and fields. Out: Markdown. A test compares the page with it.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterable, Sequence

import msgspec

from controlplane.audit import local_reference
from controlplane.audit.pod_words import POD_EVENTS, POD_REASONS
from controlplane.audit.sentences import REASONS
from controlplane.controllers.candidates.source import events as candidates
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.multikueue import events as multikueue
from controlplane.log.event import Event

WRITES: dict[type[multikueue.WorkloadWrite], str] = {
    multikueue.NominationDecided: "Workload status, management",
    multikueue.CloneDecided: "Workload, worker",
    multikueue.JobCreationDecided: "job, worker",
    multikueue.CheckStateDecided: "Workload status, management",
    multikueue.StatusRelayDecided: "job status, management",
    multikueue.FinishDecided: "Workload status, management",
    multikueue.NamesClearDecided: "Workload status, management",
    multikueue.RemovalDecided: "Workload or job, worker",
    multikueue.FinalizerRemovalDecided: "Workload, worker",
    multikueue.CloneUpdateDecided: "Workload, worker",
    multikueue.DeactivationDecided: "Workload status, worker",
    multikueue.ConditionDecided: "MultiKueueCluster or AdmissionCheck status",
}

_HEAD = """# Events and reasons

<!-- Written by `python -m controlplane.audit.reference`. Change the event classes or controlplane/audit/sentences.py instead. -->

Every event has a type (below), a `schema` (the number of its shape), a stream, and its fields as JSON in `data`, where a field that has its
default is left out. [SQL](sql.md) says how to read them; `controlplane events --follow` shows them as they come.

## Streams

| stream | the history of |
|---|---|
| `workload/NS/NAME` | a Workload of the management cluster and all its copies on workers |
| `job/KIND/NS/NAME` | the user's job |
| `cluster/NAME` | a MultiKueueCluster and the connection to it; the management cluster's own connection is `cluster/@management` |
| `clusterqueue/NAME` | a ClusterQueue |
| `admissioncheck/NAME` | an AdmissionCheck |
| `multikueueconfig/NAME` | a MultiKueueConfig |
| `refused/CLUSTER/KIND/NS/NAME` | an object that could not be understood |
| `sourcepod/NS/NAME` | the pods of a name that are placed on other clusters, and all their candidates |
| `sourcegroup/NS/NAME` | a PodGroup whose pods are placed on other clusters, and where it may be as a whole |
| `candidatetarget/NS/NAME` | a CandidateTarget |
| `named/KIND/NS/NAME` | a ConfigMap or Secret that a placed pod names |
| `copies/CLUSTER/NS` | our copies of those in a namespace of a target |
| `sourcenamespace/NAME` | a namespace that may send pods by its label |
@LOCAL@| `fleet` | what concerns all clusters together |
| `service` | the processes that took the log over |

"""
_OBSERVATIONS = """\
What an API server showed. `uid` and `resource_version` say which state of which object; specs and statuses are named by their
hash. `kept` says under which hash a body is stored that is stored without [what is private](../howto/production/privacy.md), or the
size of one that is too large.

"""
_FIELDS = """\
In `data`. Observations have besides what all of them share: `namespace`, `name`, `uid`, `resource_version`, `generation`, `deleting`.

"""


def reference() -> str:
    """Return the page, in Markdown."""
    outcomes: list[type[Event]] = [multikueue.EffectFailed, multikueue.EffectUnneeded]
    decisions = [event for event in multikueue.EVENTS if issubclass(event, multikueue.WorkloadDecision)]
    observations = [event for event in multikueue.EVENTS if event not in decisions and event not in outcomes]
    parts = [
        _HEAD.replace("@LOCAL@", local_reference.STREAMS),
        "## Connections\n\n",
        _table(("event", "says"), ((event, _doc(event)) for event in connectivity.EVENTS)),
        "\n## Observations\n\n",
        _OBSERVATIONS,
        _table(("event", "says"), ((event, _doc(event)) for event in observations)),
        "\n## Decisions\n\n",
        "Each carries a `reason`, in `data` and in the column of that name. Most mean a write to one object.\n\n",
        _table(("event", "decides", "write"), ((event, _doc(event), _write(event)) for event in decisions)),
        "\nAnd two outcomes that no watch can show:\n\n",
        _table(("event", "says"), ((event, _doc(event)) for event in outcomes)),
        "\n## Reasons\n\n",
        "The closed set. Sentences for people are made of the reason and the event's fields: `controlplane why`.\n\n",
        "| reason | because |\n|---|---|\n",
        *(f"| `{reason}` | {sentence.means} |\n" for reason, sentence in REASONS.items()),
        "\n## Fields\n\n",
        _FIELDS,
        *(_fields(event) for event in (*connectivity.EVENTS, *multikueue.EVENTS)),
        *_pods(),
        *local_reference.parts(_table, _doc, _fields),
    ]
    return "".join(parts)


def _pods() -> Iterable[str]:
    """Yield the parts about candidate pods."""
    decisions = [event for event in POD_EVENTS if issubclass(event, candidates.CandidateDecision)]
    others = [event for event in POD_EVENTS if event not in decisions]
    yield "\n## Candidate pods\n\nWhat is seen of a source pod, of its candidates in other clusters, and around them.\n\n"
    yield _table(("event", "says"), ((event, _doc(event)) for event in others))
    yield "\n### Decisions about source pods\n\n"
    rows = (
        (event, _doc(event), "yes" if issubclass(event, candidates.CandidateWrite) else "none") for event in decisions
    )
    yield _table(("event", "decides", "write"), rows)
    yield "\n### Reasons about source pods\n\n| reason | because |\n|---|---|\n"
    yield from (f"| `{reason}` | {sentence.means} |\n" for reason, sentence in POD_REASONS.items())
    yield "\n### Fields of candidate pods\n\n"
    yield from (_fields(event) for event in POD_EVENTS)


def _table(heads: Sequence[str], rows: Iterable[tuple[type[Event], *tuple[str, ...]]]) -> str:
    lines = [f"| {' | '.join(heads)} |\n", f"|{'---|' * len(heads)}\n"]
    lines += [f"| `{event.__name__}` | {' | '.join(cells)} |\n" for event, *cells in rows]
    return "".join(lines)


def _doc(event: type[Event]) -> str:
    return " ".join((inspect.getdoc(event) or "").split()).replace("|", "\\|")


def _write(event: type[Event]) -> str:
    return next((where for kind, where in WRITES.items() if kind is event), "none")


def _fields(event: type[Event]) -> str:
    shared = {
        field.name for base in (multikueue.Observation, multikueue.ObjectGone) for field in msgspec.structs.fields(base)
    }
    own = [field for field in msgspec.structs.fields(event) if field.name not in shared or not _is_seen(event)]
    named = ", ".join(f"`{field.encode_name}` {_shape(field.type)}" for field in own)
    return f"- `{event.__name__}`: {named or 'no others'}\n"


def _is_seen(event: type[Event]) -> bool:
    return issubclass(
        event,
        multikueue.Observation | multikueue.ObjectGone | candidates.SourceObservation | candidates.SourceObjectGone,
    )


def _shape(kind: object) -> str:
    """Return a field's type in JSON's words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return _shape(next(one for one in arguments if one is not types.NoneType))
    if origin is list:
        return f"list of {_shape(arguments[0])}"
    if origin is dict:
        return "object"
    names = {"str": "text", "int": "number", "bool": "true or false", "datetime": "time", "Reason": "reason"}
    name = getattr(kind, "__name__", str(kind))
    return names.get(name, "object" if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else name)


if __name__ == "__main__":
    sys.stdout.write(reference())
