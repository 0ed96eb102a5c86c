"""Names as Tekton makes them."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.coscheduling.names import (
    claim_name,
    is_dns_label,
    is_dns_name,
    made_claim_name,
    placeholder_name,
    pod_name,
    template_name,
)
from tests.support.rows import each


@pytest.mark.parametrize(
    ("workspace", "digits"), [("", "0b79942a50"), ("workspace-1", "fb0c1530a1"), ("workspace-2", "2e8aad935e")]
)
def test_placeholders_by_the_specification(workspace: str, digits: str) -> None:
    assert placeholder_name(workspace, "my-pipelinerun") == f"affinity-assistant-{digits}"


def test_two_inputs_can_coincide() -> None:
    assert placeholder_name("a", "bc") == placeholder_name("ab", "c") == placeholder_name("", "abc")


def test_claims_follow_from_workspace_and_uid() -> None:
    digits = hashlib.sha256(b"wsuid").hexdigest()[:10]
    assert claim_name("", "ws", "uid") == f"pvc-{digits}"
    assert claim_name("data", "ws", "uid") == f"data-{digits}"
    assert made_claim_name("data", "ws", "uid", "affinity-assistant-x") == f"data-{digits}-affinity-assistant-x-0"
    assert pod_name("affinity-assistant-x") == "affinity-assistant-x-0"


@pytest.mark.parametrize(("length", "cut"), [(52, False), (53, True), (63, True), (200, True)])
def test_long_template_names_are_cut(length: int, cut: bool) -> None:
    base = "b" * length
    whole, name = claim_name(base, "ws", "uid"), template_name(base, "ws", "uid")
    if not cut:
        assert name == whole
        return
    assert len(name) == 63
    assert name == whole[:52] + "-" + hashlib.sha256(whole.encode()).hexdigest()[:10]


LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(base=st.one_of(st.just(""), LABELS), workspace=st.text(max_size=40), run=LABELS, uid=st.uuids())
def test_names_are_dns_labels(base: str, workspace: str, run: str, uid: object) -> None:
    assert is_dns_label(placeholder_name(workspace, run))
    assert is_dns_label(pod_name(placeholder_name(workspace, run)))
    assert is_dns_label(template_name(base, workspace, str(uid)))
    assert is_dns_name(claim_name(base, workspace, str(uid)))
    made = made_claim_name(base, workspace, str(uid), placeholder_name("", run))
    assert len(made) <= 253
    assert not made.startswith("-")


@each("text", ["", "-a", "a-", "A", "a.b", "a" * 64, "a\n"])
def test_what_is_no_label(text: str) -> None:
    assert not is_dns_label(text)
