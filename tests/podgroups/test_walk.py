"""Which pods are handled, where the walk ends, and who owns the group."""

from __future__ import annotations

import pytest

from controlplane.controllers.podgroups.objects import OwnerReference
from controlplane.controllers.podgroups.ownership import Outcome, OwnerAnswer, Read, Resolution, Retry, Skip, resolve
from controlplane.controllers.podgroups.reasons import Oddity, PodGroupReason
from controlplane.controllers.podgroups.rules import Rules
from tests.podgroups.scenes import DEFAULT, NS, chain_of, found, knowing, pod, ref, rules
from tests.support.rows import each

RS, DEPLOYMENT, JOB, CRON = ref("ReplicaSet", "web-1"), ref("Deployment", "web"), ref("Job", "j"), ref("CronJob", "c")
WORKFLOW, WIDGET, TOP = ref("Workflow", "wf"), ref("Widget", "w"), ref("Widget", "top")


def resolution(step: object) -> Resolution:
    assert isinstance(step, Resolution), step
    return step


def oddities(step: Resolution) -> list[Oddity]:
    return [warning.oddity for warning in step.warnings]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"scheduler_name": "default-scheduler"}, PodGroupReason.OTHER_SCHEDULER),
        ({"group_name": "mine"}, PodGroupReason.ALREADY_GROUPED),
        ({"static": True}, PodGroupReason.STATIC_POD),
        ({"scheduler_name": "other", "group_name": "mine", "static": True}, PodGroupReason.OTHER_SCHEDULER),
        ({"group_name": "mine", "static": True}, PodGroupReason.ALREADY_GROUPED),
    ],
)
def test_skipped(fields: dict[str, object], reason: PodGroupReason) -> None:
    step = resolve(pod(RS, **fields), DEFAULT, chain_of(RS))
    assert isinstance(step, Skip)
    assert step.reason == reason


def test_a_pod_of_a_node_is_static() -> None:
    step = resolve(pod(ref("Node", "n1")), rules(("Node", 0)), knowing())
    assert isinstance(step, Skip)
    assert step.reason == PodGroupReason.STATIC_POD


def test_other_names_of_schedulers() -> None:
    assert isinstance(resolve(pod(scheduler_name="batch"), DEFAULT, knowing(), ("batch",)), Resolution)
    assert isinstance(resolve(pod(), DEFAULT, knowing(), ("batch",)), Skip)


def test_a_pod_without_owner_owns_its_group() -> None:
    step = resolution(resolve(pod(), DEFAULT, knowing()))
    assert (step.owner, step.group_name, step.reason) == (ref("Pod", "p"), "podgroup-uid-p", PodGroupReason.NO_OWNER)


CHAINS: list[tuple[str, Rules, tuple[OwnerReference, ...], OwnerReference, OwnerReference | None]] = [
    ("deployment", DEFAULT, (RS, DEPLOYMENT), DEPLOYMENT, DEPLOYMENT),
    ("job itself", DEFAULT, (JOB, CRON), JOB, JOB),
    ("nearest of two rules", rules(("CronJob", 0), ("Job", 0)), (JOB, CRON), JOB, JOB),
    ("step of a workflow", rules(("Workflow", -1)), (JOB, WORKFLOW), JOB, WORKFLOW),
    ("container step", rules(("Workflow", -1)), (WORKFLOW,), ref("Pod", "p"), WORKFLOW),
    ("two steps down", rules(("Workflow", -2)), (RS, DEPLOYMENT, WORKFLOW), RS, WORKFLOW),
    ("clamped to the pod", rules(("Workflow", -9)), (RS, DEPLOYMENT, WORKFLOW), ref("Pod", "p"), WORKFLOW),
    ("no match: first owner, not root", rules(("Workflow", 0)), (RS, DEPLOYMENT), RS, None),
    ("no rules", Rules(), (RS, DEPLOYMENT), RS, None),
    ("unknown kinds", rules(("Workflow", 0)), (WIDGET, TOP), WIDGET, None),
    ("pods owning pods", rules(("Widget", 0)), (ref("Pod", "driver"), WIDGET), WIDGET, WIDGET),
    ("executor without a rule", DEFAULT, (ref("Pod", "driver"), WIDGET), ref("Pod", "driver"), None),
]


@each(("what", "known_rules", "owners", "owner", "matched"), CHAINS, ids=[one[0] for one in CHAINS])
def test_who_owns_the_group(
    what: str,
    known_rules: Rules,
    owners: tuple[OwnerReference, ...],
    owner: OwnerReference,
    matched: OwnerReference | None,
) -> None:
    step = resolution(resolve(pod(owners[0]), known_rules, chain_of(*owners)))
    assert step.owner == owner
    assert (step.chain[step.matched] if step.matched is not None else None) == matched
    assert (step.reason == PodGroupReason.RULE_MATCHED) == (matched is not None)
    assert step.group_name == f"podgroup-{owner.uid}"
    assert step.warnings == ()


def test_without_rules_nobody_is_read_for_walking() -> None:
    step = resolution(resolve(pod(RS), Rules(), chain_of(RS, DEPLOYMENT)))
    assert [look.purpose for look in step.looked] == ["annotations"]


@pytest.mark.parametrize(
    ("outcome", "said"), [("NotFound", []), ("NotServed", []), ("Forbidden", [Oddity.OWNER_FORBIDDEN])]
)
def test_the_matched_object_need_not_be_read(outcome: Outcome, said: list[Oddity]) -> None:
    """Where it may not be, somebody has to be told: the number of members that it asks for is not heard."""
    step = resolution(
        resolve(pod(RS), DEFAULT, knowing((RS, found(RS, DEPLOYMENT, "4")), (DEPLOYMENT, OwnerAnswer(outcome=outcome))))
    )
    assert (step.owner, step.min_member, oddities(step)) == (DEPLOYMENT, 4, said)


@each(
    ("outcome", "oddity"),
    [
        ("NotFound", Oddity.OWNER_NOT_FOUND),
        ("Replaced", Oddity.OWNER_REPLACED),
        ("Forbidden", Oddity.OWNER_FORBIDDEN),
        ("NotServed", Oddity.OWNER_NOT_SERVED),
    ],
)
@each("broken", [0, 1])
def test_unreadable_owners_give_the_first_owner(outcome: Outcome, oddity: Oddity, broken: int) -> None:
    owners = [WIDGET, TOP]
    answers = [(WIDGET, found(WIDGET, TOP)), (TOP, found(TOP, WORKFLOW))]
    answers[broken] = (owners[broken], OwnerAnswer(outcome=outcome))
    step = resolution(resolve(pod(WIDGET), DEFAULT, knowing(*answers)))
    assert (step.owner, step.reason, oddities(step)) == (WIDGET, PodGroupReason.FIRST_OWNER, [oddity])


def test_another_uid_is_gone() -> None:
    other = found(ref("ReplicaSet", "web-1", "another"), DEPLOYMENT)
    step = resolution(resolve(pod(RS), DEFAULT, knowing((RS, other))))
    assert (step.owner, oddities(step)) == (RS, [Oddity.OWNER_REPLACED])


@pytest.mark.parametrize("unavailable", [RS, DEPLOYMENT])
def test_transient_trouble_creates_nothing(unavailable: OwnerReference) -> None:
    answers = {RS: found(RS, DEPLOYMENT), DEPLOYMENT: found(DEPLOYMENT)} | {
        unavailable: OwnerAnswer(outcome="Unavailable")
    }
    step = resolve(pod(RS), DEFAULT, knowing(*answers.items()))
    assert isinstance(step, Retry)
    assert step.owner == unavailable


def test_the_next_read_is_named() -> None:
    known = {RS.uid: found(RS, DEPLOYMENT)}
    step = resolve(pod(RS), rules(("Workflow", 0)), lambda namespace, reference: known.get(reference.uid))
    assert step == Read(namespace=NS, owner=DEPLOYMENT, purpose="walk", position=2)
    step = resolve(pod(RS), DEFAULT, lambda namespace, reference: known.get(reference.uid))
    assert step == Read(namespace=NS, owner=DEPLOYMENT, purpose="annotations", position=2)


def test_cycles_end_the_walk() -> None:
    step = resolution(resolve(pod(WIDGET), DEFAULT, knowing((WIDGET, found(WIDGET, TOP)), (TOP, found(TOP, WIDGET)))))
    assert (step.owner, oddities(step)) == (WIDGET, [Oddity.OWNER_CYCLE])


def test_a_cycle_through_the_pod_is_no_match_even_with_a_rule_for_pods() -> None:
    known = knowing((WIDGET, found(WIDGET, ref("Pod", "p"))))
    step = resolution(resolve(pod(WIDGET), rules(("Pod", 0)), known))
    assert (step.owner, step.matched, oddities(step)) == (WIDGET, None, [Oddity.OWNER_CYCLE])


def test_a_pod_that_owns_itself() -> None:
    step = resolution(resolve(pod(ref("Widget", "forged", "uid-p")), DEFAULT, knowing()))
    assert (step.owner, oddities(step)) == (ref("Pod", "p"), [Oddity.OWNER_CYCLE])


@pytest.mark.parametrize(("length", "warned"), [(9, []), (10, []), (11, [Oddity.OWNER_TOO_DEEP])])
def test_ten_owners_at_most(length: int, warned: list[Oddity]) -> None:
    owners = [ref("Widget", f"w{n}") for n in range(length)]
    step = resolution(resolve(pod(owners[0]), DEFAULT, chain_of(*owners)))
    assert (step.owner, oddities(step)) == (owners[0], warned)
    assert len(step.chain) == min(length, 10) + 1


@pytest.mark.parametrize(("place", "owns"), [(9, True), (10, False)])
def test_a_match_at_the_tenth_owner_counts_and_beyond_it_does_not(place: int, owns: bool) -> None:
    owners = [*(ref("Widget", f"w{n}") for n in range(place)), DEPLOYMENT]
    step = resolution(resolve(pod(owners[0]), DEFAULT, chain_of(*owners)))
    assert (step.owner == DEPLOYMENT) is owns


def test_a_node_owns_no_group() -> None:
    node = ref("Node", "n1")
    step = resolution(resolve(pod(WIDGET), rules(("Node", 0)), chain_of(WIDGET, node)))
    assert (step.owner, step.matched, oddities(step)) == (WIDGET, None, [Oddity.NODE_OWNER])
    below = resolution(resolve(pod(WIDGET), rules(("Node", -1)), chain_of(WIDGET, node)))
    assert (below.owner, below.reason, below.warnings) == (WIDGET, PodGroupReason.RULE_MATCHED, ())


MEMBERS: list[tuple[dict[str, str], int, bool]] = [
    ({}, 1, False),
    ({"web": "3"}, 3, False),
    ({"web-1": "4"}, 4, False),
    ({"web": "3", "web-1": "4"}, 3, False),
    ({"web": "0", "web-1": "4"}, 1, True),
    *(
        ({"web": text}, 1, True)
        for text in ("0", "-1", "", " 3", "three", "1.0", "1e3", "0x10", "+3", "2147483648", "٣")
    ),
    *(({"web": text}, number, False) for text, number in (("1", 1), ("007", 7), ("2147483647", 2**31 - 1))),
    ({"web": "9" * 5000}, 1, True),
]


@each(("notes", "members", "warned"), MEMBERS)
def test_min_member(notes: dict[str, str], members: int, warned: bool) -> None:
    step = resolution(resolve(pod(RS), DEFAULT, chain_of(RS, DEPLOYMENT, min_members=notes)))
    assert step.min_member == members
    assert oddities(step) == ([Oddity.MIN_MEMBER_INVALID] if warned else [])


def test_min_member_is_looked_for_from_the_selected_owner_down_only() -> None:
    known = chain_of(RS, DEPLOYMENT, WORKFLOW, min_members={"wf": "9", "web-1": "2"})
    step = resolution(resolve(pod(RS), rules(("Workflow", -1)), known))
    assert (step.owner, step.min_member) == (DEPLOYMENT, 2)
    alone = resolution(resolve(pod(RS), rules(("Workflow", -3)), known))
    assert (alone.owner, alone.min_member) == (ref("Pod", "p"), 1)
