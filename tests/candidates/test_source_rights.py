"""What the service may do in a source cluster: as much as it watches and writes, and no more."""

from __future__ import annotations

import pytest

from controlplane.app.rooms import Hosted
from controlplane.settings import Settings
from tests.candidates.e2e.stage import settings
from tests.deploy.manifests import one, render, rights

SEE = ("get", "list", "watch")
CANDIDATE_KINDS = {"pods", "candidatetargets.candidates.controlplane.dev"}


def home(chosen: Settings) -> set[str]:
    return {spec.kind.name for spec in Hosted(chosen).home}


def test_a_controller_that_is_off_watches_nothing() -> None:
    both, plain = home(settings()), home(Settings())
    assert both - plain == CANDIDATE_KINDS
    assert home(settings(controllers=("candidates",))) == {
        "multikueueclusters.kueue.x-k8s.io",
        *CANDIDATE_KINDS,
    }
    assert Hosted(settings(controllers=("candidates",))).workers == []


def test_only_pods_that_ask_for_it_are_watched() -> None:
    (pods,) = [spec for spec in Hosted(settings()).home if spec.kind.name == "pods"]
    assert pods.field_selector == "spec.schedulerName=controlplane-candidates"


def test_every_kind_that_is_watched_may_be_watched() -> None:
    found = rights(one(render("deploy/candidates/source"), "ClusterRole"))
    assert {kind for kind, verbs in found.items() if set(SEE) <= set(verbs)} == {
        "core/pods",
        "candidates.controlplane.dev/candidatetargets",
    }


def test_what_pods_name_is_read_by_a_role_of_its_own() -> None:
    role = one(render("deploy/candidates/follow"), "ClusterRole", "controlplane-candidates-follow")
    assert rights(role) == {"core/configmaps": SEE, "core/secrets": SEE}


def test_the_account_is_that_of_the_service() -> None:
    binding = one(render("deploy/candidates/source"), "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == one(render("deploy/candidates/source"), "ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "controlplane", "namespace": "kueue-system"}]


@pytest.mark.parametrize("namespaces", [("*",), ("*", "physics")])
def test_all_namespaces_are_watched_as_one_where_all_may_send(namespaces: tuple[str, ...]) -> None:
    (spec,) = [s for s in Hosted(settings(namespaces=namespaces)).workers if s.kind.kind == "Candidate"]
    assert (spec.namespace, spec.label_selector) == ("", "candidates.controlplane.dev/source=home")
