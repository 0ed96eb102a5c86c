"""What the service may do in a source cluster: as much as it watches and writes, and no more; and whom it has let go
of.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.connectivity.events import ClusterConnected, ClusterDisconnected, ServiceStarted
from controlplane.controllers.multikueue.observations import MultiKueueClusterGone, MultiKueueClusterObserved
from controlplane.log.event import Event, Recorded
from controlplane.settings import Settings
from tests.candidates.e2e.stage import settings
from tests.deploy.manifests import one, render, rights

SEE = ("get", "list", "watch")
CANDIDATE_KINDS = {"pods", "candidatetargets.candidates.controlplane.dev", "podgroups.scheduling.volcano.sh"}


def home(chosen: Settings) -> set[str]:
    return {spec.kind.name for spec in HostedControllers(chosen).home}


def test_a_controller_that_is_off_watches_nothing() -> None:
    both, plain = home(settings()), home(Settings())
    assert both - plain == CANDIDATE_KINDS
    assert home(settings(controllers=("candidates",))) == {
        "multikueueclusters.kueue.x-k8s.io",
        *CANDIDATE_KINDS,
    }
    assert HostedControllers(settings(controllers=("candidates",))).workers == []


def test_only_pods_that_ask_for_it_are_watched() -> None:
    (pods,) = [spec for spec in HostedControllers(settings()).home if spec.kind.name == "pods"]
    assert pods.field_selector == "spec.schedulerName=controlplane-candidates"


def test_every_kind_that_is_watched_may_be_watched() -> None:
    found = rights(one(render("deploy/candidates/source"), "ClusterRole"))
    assert {kind for kind, verbs in found.items() if set(SEE) <= set(verbs)} == {
        "core/pods",
        "candidates.controlplane.dev/candidatetargets",
        "scheduling.volcano.sh/podgroups",
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
    (spec,) = [s for s in HostedControllers(settings(namespaces=namespaces)).workers if s.kind.kind == "Candidate"]
    assert (spec.namespace, spec.label_selector) == ("", "candidates.controlplane.dev/source=home")


def test_a_cluster_that_was_removed_without_a_word_is_found() -> None:
    hosted = HostedControllers(settings())
    seen = MultiKueueClusterObserved(name="east", uid="u", resource_version="1", location="east-kubeconfig")
    gone = MultiKueueClusterGone(name="east", uid="u", resource_version="2")
    story: list[tuple[str, Event]] = [
        ("cluster/@management", ClusterConnected(kinds=["pods"])),
        ("cluster/east", seen),
        ("cluster/east", ClusterConnected()),
        ("service", ServiceStarted(epoch=2, holder="next", version="1")),
    ]
    fold(hosted, story)
    assert hosted.abandoned() == []
    fold(hosted, [("cluster/east", gone)])
    assert hosted.abandoned() == ["east"]
    fold(hosted, [("cluster/east", ClusterDisconnected(reason="Removed"))])
    assert hosted.abandoned() == []


def fold(hosted: HostedControllers, story: list[tuple[str, Event]]) -> None:
    for number, (stream, event) in enumerate(story, 1):
        at = datetime(2026, 1, 1, tzinfo=UTC)
        hosted.router.fold(
            Recorded(position=number, stream=stream, version=number, event=event, cluster="", recorded_at=at)
        )
