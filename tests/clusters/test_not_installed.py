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

WANTED = "CustomResourceDefinition candidates.candidates.controlplane.dev with version v1alpha1 is not installed there"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (CANDIDATES.path("team"), f"{WANTED}: kubectl apply -k deploy/crds"),
        (CANDIDATES.path("team", "a"), f"{WANTED}: kubectl apply -k deploy/crds"),
        (
            "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters",
            "CustomResourceDefinition multikueueclusters.kueue.x-k8s.io with version v1beta2 is not installed there:"
            " install a Kueue that serves v1beta2",
        ),
        (
            "/apis/example.com/v1/namespaces/x/renders?limit=5",
            "CustomResourceDefinition renders.example.com with version v1 is not installed there:"
            " install it, or leave the kind out of the settings",
        ),
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
