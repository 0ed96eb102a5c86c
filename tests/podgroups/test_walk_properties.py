"""What holds on any graph of owners: the walk ends, reads nothing twice, and falls back to names that RBAC cannot
change.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.podgroups.objects import OwnerFacts, OwnerReference
from controlplane.controllers.podgroups.ownership import MOST_OWNERS, OwnerAnswer, Read, Resolution, Retry, resolve
from controlplane.controllers.podgroups.rules import OwnerRule, Rules
from tests.podgroups.scenes import pod

KINDS = ("A", "B", "C", "D")
references = st.builds(
    lambda kind, number: OwnerReference(api_version="x/v1", kind=kind, name=f"o{number}", uid=f"u{number}"),
    st.sampled_from(KINDS),
    st.integers(0, 14),
)
graphs = st.dictionaries(st.integers(0, 14).map("u{}".format), references | st.none(), max_size=15)
rule_lists = st.dictionaries(st.sampled_from(KINDS), st.integers(-3, 0), max_size=3).map(
    lambda levels: Rules(
        tuple(OwnerRule(api_version="x/v1", kind=kind, adjust_level=level) for kind, level in levels.items())
    )
)
refusals = st.dictionaries(st.sampled_from(KINDS), st.sampled_from(["Forbidden", "NotFound", "NotServed"]))


def answer(graph: dict[str, OwnerReference | None], refused: dict[str, str], reference: OwnerReference) -> OwnerAnswer:
    if reference.kind in refused:
        return OwnerAnswer(outcome=refused[reference.kind])  # type: ignore[arg-type]
    if reference.uid not in graph:
        return OwnerAnswer(outcome="NotFound")
    return OwnerAnswer(outcome="Found", facts=OwnerFacts(uid=reference.uid, controller=graph[reference.uid]))


def walk(
    graph: dict[str, OwnerReference | None], first: OwnerReference | None, known_rules: Rules, refused: dict[str, str]
):
    """Resolve as a service does: asked again after each read; returns the resolution and what was read."""
    known: dict[OwnerReference, OwnerAnswer] = {}
    subject = pod(first, "pod")
    for _ in range(MOST_OWNERS + 2):
        step = resolve(subject, known_rules, lambda namespace, reference: known.get(reference))
        if isinstance(step, Resolution):
            return step, known
        assert isinstance(step, Read)
        assert step.owner not in known
        known[step.owner] = answer(graph, refused, step.owner)
    raise AssertionError("the walk does not end")


@given(graphs, references | st.none(), rule_lists, refusals)
def test_the_walk_ends_on_any_graph(graph, first, known_rules, refused) -> None:
    step, read = walk(graph, first, known_rules, refused)
    assert len(step.chain) <= MOST_OWNERS + 1
    assert len(read) <= MOST_OWNERS
    assert len({one.uid for one in step.chain}) == len(step.chain)
    assert 0 <= step.selected < len(step.chain)
    assert step.group_name == f"podgroup-{step.owner.uid}"
    if not known_rules:
        assert all(look.purpose == "annotations" for look in step.looked)


@given(graphs, references | st.none(), rule_lists, refusals)
def test_what_is_read_on_the_way_does_not_depend_on_how_it_is_asked(graph, first, known_rules, refused) -> None:
    step, _ = walk(graph, first, known_rules, refused)
    at_once = resolve(pod(first, "pod"), known_rules, lambda namespace, one: answer(graph, refused, one))
    assert at_once == step


@given(graphs, references, rule_lists, refusals)
def test_names_are_stable_under_rbac(graph, first, known_rules, refused) -> None:
    """Whatever may not be read: the group is the one of full rights, or that of the pod's own owner. There is no third
    name.
    """
    free, _ = walk(graph, first, known_rules, {})
    bound, _ = walk(graph, first, known_rules, refused)
    own = free.chain[1] if len(free.chain) > 1 else free.chain[0]
    assert bound.owner in (free.owner, own)
    if free.matched is None:
        assert bound.owner == free.owner


@given(graphs, references, rule_lists, st.sampled_from(KINDS))
def test_transient_trouble_never_falls_back(graph, first, known_rules, kind) -> None:
    free, _ = walk(graph, first, known_rules, {})

    def known(namespace: str, one: OwnerReference) -> OwnerAnswer:
        return OwnerAnswer(outcome="Unavailable") if one.kind == kind else answer(graph, {}, one)

    step = resolve(pod(first, "pod"), known_rules, known)
    assert isinstance(step, Retry) or step.owner == free.owner


@given(graphs, references, st.sampled_from(KINDS), st.integers(-4, 0))
def test_the_level_goes_down_the_pods_own_chain(graph, first, kind, level) -> None:
    at_match, _ = walk(graph, first, Rules((OwnerRule(api_version="x/v1", kind=kind),)), {})
    lower, _ = walk(graph, first, Rules((OwnerRule(api_version="x/v1", kind=kind, adjust_level=level),)), {})
    assert lower.matched == at_match.matched
    if at_match.matched is not None:
        assert lower.selected == max(at_match.matched + level, 0)
