"""What the view of candidates has to say of a log, computed from its events one after the other.

In: the events, in order. Out: rows, as dicts with the columns of the view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from tests.audit.computed import Row, Told

DECIDED = ("CandidateRequested", "PermitGranted", "CandidateDropped")
SAID = ("CandidateWaiting", "CandidateReserved", "CandidateUnschedulable", "CandidateRefused", "CandidateUnreserved")
BOUND = ("CandidateBound", "DelegateStatus", "DelegateMissing")
ANSWERS = ("CandidateReserved", "CandidateUnschedulable", "CandidateRefused", *BOUND)


class Candidate(msgspec.Struct):
    """One candidate of a name: its UID once it was seen, and what was decided and seen of it."""

    uid: str = ""
    events: list[Told] = []

    def of(self, *types: str) -> list[Told]:
        return [one for one in self.events if one.type in types]

    @property
    def gone(self) -> Told | None:
        """With which event it went; None if something was seen of it since."""
        last = next((one for one in reversed(self.events) if one.type not in DECIDED), None)
        return last if last is not None and last.type == "CandidateGone" else None


def candidates(events: Iterable[Told]) -> list[Row]:
    """Each candidate: those of a name have a UID each, and a request after the end of one begins the next."""
    found: defaultdict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for one in events:
        if not one.stream.startswith("sourcepod/") or one.type not in (*DECIDED, *SAID, *BOUND, "CandidateGone"):
            continue
        lives = found[one.stream, one.data.get("candidate") or one.data["name"]]
        if one.type in DECIDED:
            if not lives or (one.type == "CandidateRequested" and lives[-1].gone):
                lives.append(Candidate())
            meant = lives[-1]
        else:
            known = [life for life in lives if life.uid in (one.data["uid"], "")]
            meant = known[0] if known else Candidate()
            if not known:
                lives.append(meant)
            meant.uid = one.data["uid"]
        meant.events.append(one)
    return [row_of(life, name) for (_, name), lives in found.items() for life in lives]


def row_of(life: Candidate, name: str) -> Row:
    first = life.events[0]
    said, bound, dropped = life.of(*SAID), life.of(*BOUND), life.of("CandidateDropped")
    permits, gone = life.of("PermitGranted"), life.gone
    answer = said[-1] if said and not bound else None
    epochs = [one.data.get("epoch", one.data.get("origin", {}).get("epoch")) for one in life.events]
    nodes = [one.data["node"] for one in life.events if one.data.get("node")]
    times = {
        "offered_at": life.of("CandidateRequested"), "answered_at": life.of(*ANSWERS), "permitted_at": permits,
        "reserved_at": life.of("CandidateReserved"), "bound_at": bound, "dropped_at": dropped,
        "refused_at": life.of("CandidateRefused", "CandidateUnschedulable"),
    }  # fmt: skip
    at = {column: of[0].at if of else None for column, of in times.items()}
    waited = at["answered_at"] - at["offered_at"] if at["answered_at"] and at["offered_at"] else None
    return {
        **at, "namespace": first.object[0], "name": first.object[1], "cluster": first.cluster, "candidate": name,
        "epoch": max((epoch for epoch in epochs if epoch is not None), default=None),
        "outcome": "Bound" if bound else answer.type.removeprefix("Candidate") if answer else "Offered",
        "reason": answer.data.get("why", "") if answer else "",
        "message": answer.data.get("message", "") if answer else "",
        "node": nodes[-1] if nodes else None, "permits": len(permits), "permit_reason": reason(permits[-1:]),
        "dropped_reason": reason(dropped[:1]), "gone_at": gone and gone.at, "position": first.position,
        "last_position": gone and gone.position, "waiting_seconds": None if waited is None else waited.total_seconds(),
    }  # fmt: skip


def reason(events: Sequence[Told]) -> str:
    return events[0].reason if events else ""
