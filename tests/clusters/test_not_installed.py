"""What is said of a kind that an API server does not serve: which CRD is missing, and what installs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.responses import api_error
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.world import ClusterSpec, World
from tests.support.rows import each

WANTED = "CustomResourceDefinition {} with version {} is not installed there"
CANDIDATE = WANTED.format("candidates.candidates.controlplane.dev", "v1alpha1")
KUEUES = WANTED.format("multikueueclusters.kueue.x-k8s.io", "v1beta2")
RENDERS = WANTED.format("renders.example.com", "v1")

BUILT_IN = (
    "is Kubernetes' own, and not served there: the API server is of another version of Kubernetes, has it off "
    "(--runtime-config), or is not a whole one"
)


@each(
    ("path", "said"),
    [
        (CANDIDATES.path("team"), f"{CANDIDATE}: kubectl apply -k deploy/crds"),
        (CANDIDATES.path("team", "a"), f"{CANDIDATE}: kubectl apply -k deploy/crds"),
        ("/apis/kueue.x-k8s.io/v1beta2/multikueueclusters", f"{KUEUES}: install a Kueue that serves v1beta2"),
        (
            "/apis/example.com/v1/namespaces/x/renders?limit=5",
            f"{RENDERS}: install it, or leave the kind out of the settings",
        ),
        ("/apis/apps/v1/namespaces/x/deployments", f"deployments.apps with version v1 {BUILT_IN}"),
        ("/apis/batch/v1/jobs", f"jobs.batch with version v1 {BUILT_IN}"),
        ("/apis/storage.k8s.io/v1/csinodes", f"csinodes.storage.k8s.io with version v1 {BUILT_IN}"),
        ("/api/v1/pods", "404 page not found"),
        ("/apis/kueue.x-k8s.io/v1beta2", "404 page not found"),
        ("", "404 page not found"),
    ],
)
def test_a_path_that_the_server_does_not_know(path: str, said: str) -> None:
    assert api_error(404, {}, b"404 page not found\n", path).message == said


def test_what_a_server_says_itself_stays() -> None:
    body = b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \\"a\\" not found"}'
    assert api_error(404, {}, body, CANDIDATES.path("team")).message == 'pods "a" not found'
    assert api_error(502, {}, b"404 page not found", CANDIDATES.path("team")).message == "404 page not found"
    assert api_error(404, {}, b"no such site", CANDIDATES.path("team")).message == "no such site"


async def test_over_the_wire(tmp_path: Path) -> None:
    kinds = tuple(one for one in DEFAULT_KINDS if one.kind != CANDIDATES)
    world = World(ClusterSpec(kinds=kinds), {}, folder=tmp_path)
    await world.start()
    server = Transport("home", parse_kubeconfig(yaml.safe_dump(world.management.server.kubeconfig()).encode()))
    try:
        with pytest.raises(ApiError, match="is not installed there: kubectl apply -k deploy/crds") as refused:
            await server.list(ListQuery(CANDIDATES, namespace="team"))
        assert refused.value.status == 404
    finally:
        await server.close()
        await world.stop()
