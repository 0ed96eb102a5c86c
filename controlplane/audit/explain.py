"""Why a Workload is where it is: one sentence, and the events that it rests on.

In: the events of a Workload, its job and the connections of the clusters, the folds of the same events, the time. Out:
an `Explanation`. Pure: the same events give the same sentence, today or in a year.

A sentence says the fact first and the cause after it. Its events are those that were decisive, each with the one that
caused it (`caused_by`), so that nobody has to believe the sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from controlplane.audit.case import (
    STAMP,
    Answer,
    Case,
    after_restore,
    away,
    beside,
    by_operator,
    copies_seen,
    given_up,
    held_by,
    not_available,
    not_reached,
    on_worker,
    placed_since,
    quota_since,
    refusal,
    result_of,
    said,
    said_of_quota,
    scores_of,
    seen_on,
    taken_back,
    true_since,
    waits_since,
    went_with_restore,
)
from controlplane.audit.ended import statements, untold
from controlplane.audit.runs_seen import begin_of
from controlplane.audit.standing import check_of, grace, standing, unknown_copy
from controlplane.controllers.connectivity.eligibility import ClustersJudged
from controlplane.controllers.connectivity.events import MANAGEMENT, MassOutageBegan
from controlplane.controllers.multikueue import strays
from controlplane.controllers.multikueue.context import NEVER_TWICE, WorkloadContext
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    JobCreationDecided,
    NominationDecided,
    WinnerChosen,
    WinnerReleased,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.ineligible import left_out
from controlplane.controllers.multikueue.observations import (
    CloneObserved,
    JobObserved,
    ObservationRefused,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.phrases import because
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Word
from controlplane.runtime.phrases import listed


def explain(state: WorkloadState, context: WorkloadContext, events: Sequence[Recorded], now: datetime) -> Explanation:
    """Return why a Workload is where it is.

    `events`, in order: those of its stream, of its job's and of the clusters'. Those not about it do no harm.
    """
    stands = standing(state, context, now)
    begun = begin_of(events, f"workload/{state.namespace}/{state.name}")
    case = Case(state, context, now, events, stands, begun.position if begun is not None else 0)
    sentence, rests_on = ANSWERS[stands.word](case)
    added, shows = after_restore(case)
    sentence, rests_on = f"{sentence} {added}", [*rests_on, *shows]
    statement_list = statements(case) if stands.word in ("Finished", "Deleted") else []
    return Explanation(stands, " ".join(sentence.split()), _with_causes(rests_on, events, case.stream), statement_list)


def _with_causes(chosen: Iterable[Recorded | None], events: Sequence[Recorded], stream: str) -> list[Recorded]:
    found = {recorded.position: recorded for recorded in chosen if recorded is not None}
    causes = {recorded.caused_by for recorded in found.values()} - {0}
    # The newest event at the time is a cause if it was seen; if it was a decision, it only happened to come before.
    found |= {
        e.position: e
        for e in events
        if e.position in causes and e.stream == stream and not isinstance(e.event, WorkloadDecision)
    }
    return [found[position] for position in sorted(found)]


def _says(case: Case, state: str) -> Recorded | None:
    """Return since when our admission check has a state."""
    check = check_of(case.state, case.context)
    name = check.name if check is not None else ""
    return case.shown(lambda seen: any(entry.name == name and entry.state == state for entry in seen.checks))


# --- one sentence for each standing ----------------------------------------------------------------------------------


def _pending(case: Case) -> Answer:
    taken, quota = taken_back(case), said_of_quota(case)
    if taken is not None:
        return f"It waits for quota again{quota}: {taken[0]}.", [*taken[1], waits_since(case)]
    checks = case.state.local.checks if case.state.local is not None else ()
    found = [f"{one.name} is Rejected: {one.message}".rstrip(" .:") for one in checks if one.state == "Rejected"]
    refused = " ".join(f"Its admission check {one}." for one in found)
    if not found:
        return f"It waits for quota on the management cluster{quota}.", [waits_since(case)]
    text = f"It has no quota on the management cluster and is not tried for any{quota}. {refused}"
    return text, [waits_since(case), _says(case, "Rejected")]


def _inactive(case: Case) -> Answer:
    text, since = "It is deactivated: its spec.active is false", case.shown(lambda seen: not seen.active)
    rejected = case.last(CheckStateDecided)
    if rejected is not None and isinstance(rejected.event, CheckStateDecided) and rejected.event.state == "Rejected":
        return f"{text}, after it was rejected because {because(rejected.event)}.", [rejected, since]
    return f"{text}{said(case.state.local, 'Evicted')}.", [since]


def _reserved(case: Case) -> Answer:
    route = case.context.route
    if route is None:
        return "It has quota and none of its admission checks is ours: it is not dispatched.", [quota_since(case)]
    if route.error:
        return f"It has quota and is offered to nobody: {route.error}.", [quota_since(case)]
    text = f"It has quota and waits for {case.standing.waits_for}"
    held = held_by(case)
    if held:
        because_away = f"{text}: {not_reached(case, held)}."
        return because_away, [quota_since(case), *(away(case, name) for name in held), *copies_seen(case)]
    if copies := copies_seen(case):
        return f"{text}.", [quota_since(case), *copies]
    reasons = {name: why for name in route.clusters if (why := _closed(case, name))}
    if len(reasons) < len(route.clusters) or case.context.job is None:
        return f"{text}.", [quota_since(case), *refusal(case, "@management")]
    each = "; ".join(f"{name}: {why}" for name, why in reasons.items())
    return f"{text}: {each}.", [quota_since(case), *(away(case, name) for name in reasons), case.last(ClustersJudged)]


def _closed(case: Case, cluster: str) -> str:
    """Return why a cluster is not offered the Workload, "" if it may be."""
    if not case.context.available(cluster):
        return not_available(case, cluster)
    route = case.context.route
    known = left_out(case.context, route).get(cluster, "") if route is not None else ""
    return known or ("" if case.context.takes(cluster) else "whether it can take it is not judged yet")


def _nominated(case: Case) -> Answer:
    offer = case.last(NominationDecided)
    names = _offered_to(case, offer)
    held = held_by(case)
    unfit = left_out(case.context, case.context.route) if case.context.route is not None else {}
    each = (
        [f"the job may run on {listed(held)}, so nobody else gets it yet ({not_reached(case, held)})"] if held else []
    )
    each += [f"nobody gets it before {unknown_copy(copy)}" for copy in strays.waited_for(case.context)]
    each += [f"{name} {on_worker(case, name)}" for name in names if name not in case.state.refused]
    each += [
        f"{name} is left out until {r.until:{STAMP}} because {because(r)}" for name, r in case.state.refused.items()
    ]
    each += [f"{name} is not offered it: {why}" for name, why in unfit.items() if name not in names]
    released = case.last(
        WinnerReleased, test=lambda e: offer is None or getattr(e.event, "attempt", 0) == case.state.attempt
    )
    after = _after_release(released)
    scored, scores = scores_of(case)
    first = f"It was offered to {listed(names)} (attempt {case.state.attempt}) and none of them has it yet{after}"
    evidence = [offer, scores, released, *_answers(case, names), *([case.last(ClustersJudged)] if unfit else [])]
    evidence += [*(away(case, name) for name in held), *(beside(case, name)[1] for name in names), *copies_seen(case)]
    return f"{first}{': ' if each else ''}{'; '.join(each)}{scored}.", evidence


def _offered_to(case: Case, offer: Recorded | None) -> list[str]:
    """Return the clusters that the Workload names, else those that it was last offered to."""
    local = case.state.local
    if local is not None and local.nominated:
        return local.nominated
    return offer.event.clusters if offer is not None and isinstance(offer.event, NominationDecided) else []


def _answers(case: Case, names: Iterable[str]) -> Iterator[Recorded | None]:
    """Yield what each of the clusters said last, and the refusals that still hold."""
    for name in names:
        yield seen_on(case, name) or (refusal(case, name) or [None])[0]
    for name in case.state.refused:
        yield case.on(name, ClusterRefused)


def _after_release(released: Recorded | None) -> str:
    if released is None or not isinstance(released.event, WinnerReleased):
        return ""
    return f", after {released.event.cluster} was chosen and given up because {because(released.event)}"


def _choice(case: Case) -> tuple[str, Recorded | None]:
    cluster = case.standing.cluster
    chosen = case.last(WinnerChosen, test=lambda e: e.cluster == cluster) or case.last(WinnerChosen)
    if chosen is None or not isinstance(chosen.event, WinnerChosen):
        return "", None
    return f"because {because(chosen.event)}", chosen


def _chosen(case: Case) -> Answer:
    clause, chosen = _choice(case)
    cluster = case.standing.cluster
    failure = case.state.trouble.get(f"{cluster}/Job") or case.state.trouble.get("@management/Workload")
    held = f"; a write was refused: {failure.message}" if failure else ""
    stay = [name for name in sorted(case.state.remotes) if name != cluster and f"{name}/Job" in case.state.trouble]
    held += "".join(f"; its removal from {name} failed: {case.state.trouble[f'{name}/Job'].message}" for name in stay)
    text = f"{cluster} was chosen {clause}, and it waits for {case.standing.waits_for}{held}."
    lost = [away(case, name) for name in held_by(case)]
    return text, [
        chosen,
        case.last(JobCreationDecided, test=lambda e: chosen is None or e.position > chosen.position),
        *lost,
        *(one for name in (cluster, *stay, "@management") for one in refusal(case, name)),
    ]


def _awaited(case: Case, cluster: str) -> Answer:
    """Return what a Workload waits for that has a cluster, and why if its copy there cannot be read."""
    text = f", and waits for {case.standing.waits_for}"
    if case.context.unread_on(cluster) is None:
        return text, []
    return f"{text}: {not_available(case, cluster)}", [away(case, cluster)]


def _placed(case: Case) -> Answer:
    clause, chosen = _choice(case)
    verb = "runs on" if case.standing.word == "Running" else "is admitted on"
    cluster = case.standing.cluster
    if not cluster:
        return _not_dispatched(case)
    text = f"It {verb} {cluster} {clause}".rstrip()
    ready = case.last(
        CheckStateDecided,
        test=lambda e: (
            isinstance(e.event, CheckStateDecided)
            and e.event.winner == cluster
            and e.event.reason != WorkloadReason.TOPOLOGY_ASSIGNED
        ),
    )
    scored, scores = scores_of(case)
    text += scored
    evidence: list[Recorded | None] = [scores, chosen, ready, placed_since(case)]
    if case.standing.word == "Running":
        evidence.append(case.since(RemoteJobObserved, lambda seen: not seen.suspended, cluster))
    if case.standing.waits_for:
        said, why = _awaited(case, cluster)
        text, evidence = text + said, [*evidence, *why]
    taken = taken_back(case) if case.state.attempt > 1 else None
    if taken is not None:
        text += f"; it is attempt {case.state.attempt}: before, {taken[0]}"
        earlier = [e for e in taken[1] if e is not None and (chosen is None or e.position < chosen.position)]
        evidence = [*earlier, *evidence]
    return f"{text}.", evidence


def _not_dispatched(case: Case) -> Answer:
    """Return what is said of a Workload that is admitted where it was submitted."""
    text, job = "It is admitted on the management cluster", case.context.job
    evidence: list[Recorded | None] = [placed_since(case)]
    if case.context.route is not None:
        return f"It is admitted, and waits for {case.standing.waits_for or 'its cluster to be named'}.", evidence
    text += ": none of its admission checks is ours, so it is not dispatched"
    if job is not None and not job.suspended and not job.inactive:
        text += ", and its job runs there"
        evidence.append(case.last(JobObserved, test=lambda e: not getattr(e.event, "suspended", True)))
    return f"{text}.", evidence


def _lost(case: Case) -> Answer:
    cluster = case.standing.cluster
    until = grace(case.state, case.context, cluster, case.now)
    _, chosen = _choice(case)
    outage = case.last(MassOutageBegan) if case.context.mass_outage else None
    gave_up = given_up(case, cluster)
    if until is None and outage is not None and case.context.execution_policy != NEVER_TWICE:
        end = "it is not taken back while most clusters are away together"
    elif until is None:
        end = f"it is not taken back without word from there, by its execution policy {case.context.execution_policy}"
    elif case.now < until:
        end = f"if it does not come back, the Workload is taken back at {until:{STAMP}}"
    else:
        end = f"its time is over{by_operator(gave_up)}, and it is to be taken back now"
    text = f"It stays with {cluster}, which cannot be reached ({not_available(case, cluster)}); {end}."
    return text, [chosen, away(case, cluster), gave_up, outage if until is None else None, placed_since(case)]


def _retry(case: Case) -> Answer:
    decided = case.last(CheckStateDecided)
    _, chosen = _choice(case)
    cluster = chosen.cluster if chosen is not None else ""
    clause = (
        because(decided.event, cluster)
        if decided and isinstance(decided.event, CheckStateDecided)
        else "its check says so"
    )
    lost = away(case, cluster, decided.position) if decided is not None else None
    gave_up = given_up(case, cluster, decided.position) if decided is not None else None
    text = (
        f"It is being taken back from {cluster or 'its cluster'} because {clause}{by_operator(gave_up)};"
        " Kueue evicts it and queues it again."
    )
    return text, [chosen, lost, gave_up, decided, _says(case, "Retry")]


def _rejected(case: Case) -> Answer:
    decided = case.last(CheckStateDecided)
    check = check_of(case.state, case.context)
    if decided is not None and isinstance(decided.event, CheckStateDecided) and decided.event.state == "Rejected":
        return f"It was rejected because {because(decided.event)}: {decided.event.message}.", [
            decided,
            _says(case, "Rejected"),
        ]
    return f"It was rejected: {check.message if check else ''}.", [_says(case, "Rejected")]


def _evicted(case: Case) -> Answer:
    taken = taken_back(case)
    text = f"It waits for {case.standing.waits_for}, so that its quota is free for others"
    if taken is None:
        return f"{text}.", [true_since(case, "Evicted")]
    return f"{text}: {taken[0]}.", [*taken[1], true_since(case, "Evicted")]


def _finished(case: Case) -> Answer:
    local = case.state.local
    shows = true_since(case, "Finished")
    source, decided = result_of(case, shows)
    copy = case.since(CloneObserved, lambda seen: seen.is_true("Finished"), source) if source else None
    chosen = case.last(WinnerChosen, test=lambda e: e.cluster == source) if source else None
    where = f" on {source}" if source else ""
    why, refused = untold(case)
    return f"It finished{where}{said(local, 'Finished')}.{why}", [chosen, copy, decided, shows, *refused]


def _deleting(case: Case) -> Answer:
    copies = case.standing.waits_for
    return f"It is being deleted{f', and {copies} are removed' if copies else ''}.", [
        case.shown(lambda seen: seen.deleting)
    ]


def _deleted(case: Case) -> Answer:
    if case.context.hidden:
        refused = case.on(MANAGEMENT, ObservationRefused)
        error = f" ({refused.event.error})" if refused and isinstance(refused.event, ObservationRefused) else ""
        return f"It is there and cannot be read{error}: nothing is done about it.", [refused]
    if case.state.unknown_on:
        return _unknown_copies(case)
    last = case.last(WorkloadObserved)
    left = f"; {case.standing.waits_for} are still to go" if case.standing.waits_for else ""
    if last is None:
        return f"No Workload of this name was ever seen{left}.", [case.last(CloneObserved)]
    seen = last.event if isinstance(last.event, WorkloadObserved) else None
    ended = f" after it finished{said(seen, 'Finished')}" if seen is not None and seen.is_true("Finished") else ""
    how = "is gone from" if went_with_restore(case) else "was deleted on"
    shows = [true_since(case, "Finished"), case.last(WorkloadGone)]
    return f"It {how} the management cluster{ended}{left}.", shows


def _unknown_copies(case: Case) -> Answer:
    known = case.last(WorkloadObserved) is not None
    before = "The Workload of this name is gone" if known else "No Workload of this name was ever seen"
    where = listed(case.state.unknown_on)
    text = f"{before}; what {where} has is not said to be made for this management cluster, and is left alone."
    return text, [case.last(WorkloadGone), case.last(CloneObserved)]


ANSWERS: dict[Word, Callable[[Case], Answer]] = {
    "Pending": _pending,
    "Inactive": _inactive,
    "Reserved": _reserved,
    "Nominated": _nominated,
    "Chosen": _chosen,
    "Admitted": _placed,
    "Running": _placed,
    "Lost": _lost,
    "Retry": _retry,
    "Rejected": _rejected,
    "Evicted": _evicted,
    "Deleting": _deleting,
    "Finished": _finished,
    "Deleted": _deleted,
}
