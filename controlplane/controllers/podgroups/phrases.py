"""The words of PodGroup ownership: what each event says, in a few words, and why each decision was taken.

In: an event of `controlplane.controllers.podgroups`. Out: one short line, as `controlplane.audit.words` has them, and a
clause that completes "because …". A test sees to it that no event and no reason is missing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, told

GROUP_EVENTS: tuple[type[Event], ...] = events.EVENTS
_GIBI, _NANO = 2**30, 10**9


def _member(event: events.MemberObserved) -> str:
    said = {"Pending": "waits for a node", "Unschedulable": "finds no node", "Bound": "is on a node"}
    state = "is being deleted" if event.deleting else said.get(event.stage, event.stage.lower())
    return f"pod {state}" + (f", in {event.facts.group_name}" if event.facts.group_name else "")


def _group(event: events.GroupObserved) -> str:
    if event.deleting:
        return "PodGroup is being deleted"
    return f"PodGroup is {event.phase or 'new'}: {event.running} run, {event.min_member} wanted"


def _read(event: events.OwnerRead) -> str:
    return f"{event.owner.kind} {event.owner.name} was read: {event.answer.outcome}"


def _room(event: events.RoomObserved) -> str:
    total, used = event.room.total, event.room.used
    cpu = f"{used.get('cpu', 0) / _NANO:g} of {total.get('cpu', 0) / _NANO:g} cpu"
    memory = f"{used.get('memory', 0) / _NANO / _GIBI:.1f} of {total.get('memory', 0) / _NANO / _GIBI:.1f} GiB"
    return f"room: {cpu} and {memory} are used"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.MemberObserved: _member,
        events.MemberGone: "pod is gone",
        events.OwnerObserved: "{e.owner.kind} {e.owner.name} is there",
        events.OwnerGone: "owner is gone",
        events.GroupObserved: _group,
        events.GroupGone: "PodGroup is gone",
        events.RulesAccepted: lambda e: f"rules hold: {', '.join(str(rule) for rule in e.rules) or 'none'}",
        events.RulesRefused: lambda e: f"rules are refused: {len(e.complaints)} complaints; those before stay in force",
        events.MemberRefused: "{e.kind} {e.namespace}/{e.name} cannot be understood: {e.error}",
        events.RoomObserved: _room,
        events.OwnerRead: _read,
        events.OwnerReadFailed: lambda e: f"{e.owner.kind} {e.owner.name} could not be read: {e.message or e.error}",
        events.OwnerResolved: "belongs to {e.group} of {e.resolution.owner.kind} {e.resolution.owner.name}",
        events.GroupCreationDecided: "PodGroup is to be created, for {e.min_member} members",
        events.GroupUpdateDecided: "PodGroup is to ask for {e.min_member} members",
        events.GroupStatusDecided: lambda e: (
            "PodGroup is to say who owns it" if e.conditions_only else f"PodGroup's phase is to be {e.phase}"
        ),
        events.MembershipDecided: "pod is to carry the name {e.group}",
        events.MemberWarned: "pod is to say: {e.warning}",
        events.RulesNoted: lambda e: "ConfigMap is to say that its rules are refused" if e.note else "note is to go",
        events.GroupWriteFailed: lambda e: f"write refused ({f'{e.code} {e.error}'.strip()})",
        events.GroupWriteUnneeded: "write changed nothing",
    }
)

R = PodGroupReason
REASONS: Mapping[PodGroupReason, Sentence] = {
    R.RULE_MATCHED: Sentence("a rule names one of the pod's owners", "the rule {rule} matches {matched}"),
    R.FIRST_OWNER: Sentence(
        "no rule matches, so it is the pod's own owner", "no rule matches, and it is the pod's own owner"
    ),
    R.NO_OWNER: Sentence("nothing controls the pod", "nothing controls the pod"),
    R.OTHER_SCHEDULER: Sentence("another scheduler places the pod", "another scheduler places the pod"),
    R.ALREADY_GROUPED: Sentence("the pod names its group itself", "the pod names its group itself"),
    R.STATIC_POD: Sentence("the pod mirrors a file on a node", "the pod mirrors a file on a node"),
    R.OWNER_UNAVAILABLE: Sentence("an owner cannot be read just now", "an owner cannot be read just now"),
    R.GROUP_NAME_TAKEN: Sentence("a group of that name has another owner", "a group of that name has another owner"),
    R.OWNER_GONE: Sentence("the object that would own it is not there", "the object that would own it is not there"),
    R.MEMBER_WITHOUT_GROUP: Sentence(
        "a pod belongs to a group that is not there", "a pod belongs to it, and it is not there"
    ),
    R.GROUP_EXISTS: Sentence("the group is there and is its owner's", "the group is there and is its owner's"),
    R.MIN_MEMBER_CHANGED: Sentence(
        "the owner wants another number of members", "its owner wants {min_member} members now"
    ),
    R.TEMPLATE_CHANGED: Sentence(
        "the owner's newest pods ask for something else", "its owner's newest pods ask for something else"
    ),
    R.MEMBERS_CHANGED: Sentence("the members show something else now", "its members show something else now"),
    R.ROOM_FOUND: Sentence("the cluster has room for what it asks for", "the cluster has room for what it asks for"),
    R.INQUEUE_EXPIRED: Sentence(
        "it was admitted and did not start until `podgroups.inqueueLimit` was over",
        "it was admitted and did not start until podgroups.inqueueLimit was over",
    ),
    R.RULES_REFUSED: Sentence("the document of rules cannot be used", "the document cannot be used"),
    R.RULES_ACCEPTED: Sentence("the document of rules holds again", "the document holds again"),
}


def group_because(decision: events.GroupDecision) -> str:
    """Return why a decision about a group or its pods was taken, to follow "because"."""
    rule = matched = ""
    if isinstance(decision, events.OwnerResolved):
        found = decision.resolution
        rule = str(found.rule or "")
        matched = f"{found.chain[found.matched].kind} {found.chain[found.matched].name}" if found.matched else ""
    return REASONS[decision.reason].clause.format_map(
        {"rule": rule, "matched": matched, "min_member": str(getattr(decision, "min_member", ""))}
    )
