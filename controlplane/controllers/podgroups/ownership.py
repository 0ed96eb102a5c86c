"""Walks from a pod over its controlling owners to the object that owns its PodGroup, one read at a time
(volcano-sh/volcano docs/design/Enhance-Generate-PodGroup-OwnerReferences-for-Normal-Pod.md, ed72c7c81;
docs/explanation/podgroups.md).

In: the pod, the rules, and what is known of owners so far. Out: who owns the group, or the one read that has to be made
before the walk can go on. It keeps nothing between two calls: it is asked again from the pod on whenever more is known,
and a chain has ten owners at most. So whoever reads (a cache, a dry run, the loop over many pods that share an owner)
decides how; nothing here waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from controlplane.controllers.podgroups.objects import OwnerFacts, OwnerReference, PodFacts, is_node, is_static
from controlplane.controllers.podgroups.reasons import Oddity, PodGroupReason
from controlplane.controllers.podgroups.rules import OwnerRule, Rules
from controlplane.log.event import Part

MOST_OWNERS = 10
MOST_MEMBERS = 2**31 - 1
OUR_SCHEDULERS = ("volcano", "controlplane")
_DECIMAL = re.compile(r"[0-9]+", re.ASCII)

Outcome = Literal["Found", "NotFound", "Replaced", "Forbidden", "NotServed", "Misfit", "Unavailable"]
Purpose = Literal["walk", "annotations"]


class OwnerAnswer(Part):
    """What is known of an owner. `Replaced`: another object has its name (another UID); `Misfit`: what was read is no
    object that can be followed; `Unavailable`: nobody knows yet, ask again."""

    outcome: Outcome
    facts: OwnerFacts | None = None
    message: str = ""


#: What is known of the object that a reference in a namespace names; None: nobody looked yet.
Known = Callable[[str, OwnerReference], OwnerAnswer | None]

_ODDITY: dict[Outcome, tuple[Oddity, str]] = {
    "NotFound": (Oddity.OWNER_NOT_FOUND, "is not there"),
    "Replaced": (Oddity.OWNER_REPLACED, "is gone: an object of this name has another UID"),
    "Forbidden": (Oddity.OWNER_FORBIDDEN, "may not be read"),
    "Misfit": (Oddity.OWNER_UNREADABLE, "does not fit its API"),
    "NotServed": (Oddity.OWNER_NOT_SERVED, "is of a kind that the API server does not serve"),
}


class Warned(Part):
    """Something odd that did not keep the pod from getting a group."""

    oddity: Oddity
    message: str

    def __str__(self) -> str:
        return f"{self.oddity}: {self.message}"


class Looked(Part):
    """A look at one owner: which, what for, how it ended."""

    owner: OwnerReference
    purpose: Purpose
    outcome: Outcome


class Skip(Part):
    """A pod that is none of ours: it gets no group from us. `group_name` is the one it names itself."""

    reason: PodGroupReason
    group_name: str = ""


class Read(Part):
    """The read that the walk needs next: this object, in the pod's namespace or cluster-wide, as its kind demands."""

    namespace: str
    owner: OwnerReference
    purpose: Purpose
    position: int


class Retry(Part):
    """An owner cannot be read just now. Nothing is created: a group by another owner would stay for ever."""

    reason: PodGroupReason
    owner: OwnerReference
    message: str
    chain: tuple[OwnerReference, ...] = ()
    looked: tuple[Looked, ...] = ()


class Resolution(Part):
    """Who owns the group of a pod.

    `chain` begins with the pod; `selected` and `matched` are positions in it, `matched` None if no rule did.
    `min_member` is at least 1."""

    reason: PodGroupReason
    chain: tuple[OwnerReference, ...]
    selected: int
    matched: int | None = None
    rule: OwnerRule | None = None
    min_member: int = 1
    warnings: tuple[Warned, ...] = ()
    looked: tuple[Looked, ...] = ()

    @property
    def owner(self) -> OwnerReference:
        """The object that owns the group."""
        return self.chain[self.selected]

    @property
    def owner_is_gone(self) -> bool:
        """Whether the object that owns the group was looked for on the walk and was not there, by its UID."""
        return any(one.owner == self.owner and one.outcome in ("NotFound", "Replaced") for one in self.looked)

    @property
    def group_name(self) -> str:
        """The group's name, which follows from the owner's UID alone."""
        return group_name(self.owner)


Step = Skip | Read | Retry | Resolution


def group_name(owner: OwnerReference) -> str:
    """Return the name of the group that an object owns."""
    return f"podgroup-{owner.uid}"


def member_count(text: str) -> int:
    """Return the number of members that an annotation asks for: from 1 to 2^31 - 1, in decimal; 0 if it is none."""
    if not _DECIMAL.fullmatch(text) or len(text.lstrip("0")) > len(str(MOST_MEMBERS)):
        return 0
    number = int(text)
    return number if number <= MOST_MEMBERS else 0


def resolve(pod: PodFacts, rules: Rules, known: Known, schedulers: tuple[str, ...] = OUR_SCHEDULERS) -> Step:
    """Return who owns the group of a pod, that it gets none, or what has to be read first."""
    skipped = skip(pod, schedulers)
    if skipped is not None:
        return skipped
    return _Walk(pod, rules, known).result()


def skip(pod: PodFacts, schedulers: tuple[str, ...] = OUR_SCHEDULERS) -> Skip | None:
    """Return why a pod gets no group from us, None if it does."""
    if pod.scheduler_name not in schedulers:
        return Skip(reason=PodGroupReason.OTHER_SCHEDULER)
    if pod.group_name:
        return Skip(reason=PodGroupReason.ALREADY_GROUPED, group_name=pod.group_name)
    if pod.static or is_static({}, pod.controller):
        return Skip(reason=PodGroupReason.STATIC_POD)
    return None


class _Stop(Exception):  # noqa: N818 - ends a walk, is no error
    """The walk cannot go on before this is dealt with."""

    def __init__(self, step: Read | Retry) -> None:
        super().__init__()
        self.step = step


class _Walk:
    """One walk, from the pod on, over what is known."""

    def __init__(self, pod: PodFacts, rules: Rules, known: Known) -> None:
        self.pod, self.rules, self.known = pod, rules, known
        self.chain: list[OwnerReference] = [pod.reference]
        self.warnings: list[Warned] = []
        self.looked: list[Looked] = []

    def result(self) -> Read | Retry | Resolution:
        try:
            matched = self._climb()
            rule = self.rules.match(self.chain[matched]) if matched is not None else None
            selected, reason = self._select(matched, rule)
            if reason != PodGroupReason.RULE_MATCHED:
                matched = rule = None
            return Resolution(
                reason=reason,
                chain=tuple(self.chain),
                selected=selected,
                matched=matched,
                rule=rule,
                min_member=self._min_member(selected),
                warnings=tuple(self.warnings),
                looked=tuple(self.looked),
            )
        except _Stop as stop:
            return stop.step

    def _climb(self) -> int | None:
        """Go up to the nearest reference that a rule matches; return its position, None if there is none."""
        following = self.pod.controller
        seen = {self.pod.uid}
        while following is not None:
            if following.uid in seen:
                self._warn(Oddity.OWNER_CYCLE, f"{following} is among its own owners")
                return None
            if len(self.chain) > MOST_OWNERS:
                self._warn(Oddity.OWNER_TOO_DEEP, f"{following} is more than {MOST_OWNERS} owners above the pod")
                return None
            seen.add(following.uid)
            self.chain.append(following)
            if not self.rules:  # today's behaviour: nobody above the first owner is asked for
                return None
            if self.rules.match(following):
                return len(self.chain) - 1
            following = self._parent(following)
        return None

    def _parent(self, owner: OwnerReference) -> OwnerReference | None:
        """Return the controlling owner of an owner; None, and a warning, if it cannot be read."""
        answer = self._look(owner, "walk")
        if answer.facts is not None:
            return answer.facts.controller
        oddity, what = _ODDITY[answer.outcome]
        self._warn(oddity, f"{owner} {what}; who owns it is not known")
        return None

    def _select(self, matched: int | None, rule: OwnerRule | None) -> tuple[int, PodGroupReason]:
        """Return the position of the group's owner: the matched one, moved down by the rule, else the pod's first
        owner.
        """
        if matched is not None and rule is not None:
            selected = max(matched + rule.adjust_level, 0)
            if not is_node(self.chain[selected]):
                return selected, PodGroupReason.RULE_MATCHED
            self._warn(Oddity.NODE_OWNER, f"{self.chain[selected]} cannot own a PodGroup")
        return (1, PodGroupReason.FIRST_OWNER) if len(self.chain) > 1 else (0, self._alone())

    def _alone(self) -> PodGroupReason:
        """Say why a pod owns its group itself: it has no owner, or only itself."""
        return PodGroupReason.NO_OWNER if self.pod.controller is None else PodGroupReason.FIRST_OWNER

    def _min_member(self, selected: int) -> int:
        """Return the wanted number of members: the first annotation from the selected owner down to the pod's own
        owner.
        """
        for position in range(selected, 0, -1):
            owner = self.chain[position]
            known = any(look.owner == owner for look in self.looked)
            answer = self._look(owner, "annotations")
            if answer.outcome == "Forbidden" and not known:
                oddity, what = _ODDITY["Forbidden"]
                self._warn(oddity, f"{owner} {what}; how many members it asks for is not known")
            if answer.facts is not None and answer.facts.min_member is not None:
                return self._members(owner, answer.facts.min_member)
        return 1

    def _members(self, owner: OwnerReference, text: str) -> int:
        number = member_count(text)
        if number:
            return number
        asks = f'{owner} asks for "{text[:40]}" members'
        self._warn(Oddity.MIN_MEMBER_INVALID, f"{asks}: 1 is used; write a whole number from 1 to {MOST_MEMBERS}")
        return 1

    def _look(self, owner: OwnerReference, purpose: Purpose) -> OwnerAnswer:
        """Return what is known of an owner; stops the walk where nothing is, or where it is to be asked again."""
        answer = self.known(self.pod.namespace, owner)
        position = self.chain.index(owner)
        if answer is None:
            raise _Stop(Read(namespace=self.pod.namespace, owner=owner, purpose=purpose, position=position))
        if answer.outcome == "Found" and answer.facts is not None and answer.facts.uid != owner.uid:
            answer = OwnerAnswer(outcome="Replaced", message=f"its UID is {answer.facts.uid}")
        if all(look.owner != owner for look in self.looked):
            self.looked.append(Looked(owner=owner, purpose=purpose, outcome=answer.outcome))
        if answer.outcome == "Unavailable":
            raise _Stop(
                Retry(
                    reason=PodGroupReason.OWNER_UNAVAILABLE,
                    owner=owner,
                    message=f"{owner} cannot be read just now{f': {answer.message}' if answer.message else ''}",
                    chain=tuple(self.chain),
                    looked=tuple(self.looked),
                )
            )
        return answer

    def _warn(self, oddity: Oddity, message: str) -> None:
        self.warnings.append(Warned(oddity=oddity, message=message))
