"""What a scheduler asks of an API server is what the roles of deploy/scheduler give it."""

from __future__ import annotations

from controlplane.kube.kinds import PRIORITY_CLASSES
from tests.deploy.manifests import one, render, rights
from tests.scheduling.stage import Stage, staged, until
from tests.scheduling.test_devices import asking, device_class, devices
from tests.scheduling.test_devices import claim as device_claim
from tests.scheduling.test_volumes import claim, classes, reserved_with_a_claim, using, volume

PLAIN, CANDIDATES, OF_LEASES = (f"controlplane-scheduler{of}" for of in ("", "-candidates", "-leases"))


def given(*roles: str) -> set[tuple[str, str, str]]:
    """Verb, resource and subresource, as the simulated server counts them."""
    found = set()
    for name in roles:
        for key, verbs in rights(one(render("deploy/scheduler"), "ClusterRole", name)).items():
            group, _, rest = key.partition("[")[0].partition("/")
            resource, _, subresource = rest.partition("/")
            what = resource if group == "core" else f"{resource}.{group}"
            found |= {(verb, what, subresource) for verb in verbs}
    return found


def asked(stage: Stage) -> set[tuple[str, str, str]]:
    return {key for key, count in stage.requests().items() if count and key[1]}


async def plain(stage: Stage) -> None:
    cluster = stage.cluster
    classes(cluster)
    cluster.node("a", cpu="3")
    volume(cluster, "v", "a")
    claim(cluster, "static", "local")
    claim(cluster, "made", "made")
    cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    device_class(cluster)
    devices(cluster, "a", "d0")
    device_claim(cluster, "gpu")
    await stage.replica()
    cluster.pod("gpu", cpu="0", **asking("gpu"))
    cluster.pod("both", **using("static", "made"))
    cluster.pod("low", cpu="2")
    await until(lambda: all(cluster.on(name) for name in ("both", "low", "gpu")))
    cluster.pod("high", cpu="2", priorityClassName="high")
    await until(lambda: cluster.on("high"))


async def test_pods_of_this_cluster_need_the_plain_role(database_url: str) -> None:
    async with staged(database_url) as stage:
        await plain(stage)
        wanted = {key for key in asked(stage) if "candidates.controlplane.dev" not in key[1]}
        assert wanted - given(PLAIN, OF_LEASES) == set()
        writes = {key for key in given(PLAIN) if key[0] not in ("get", "list", "watch")}
        # Nothing is given for nothing: Gang is in no default profile, and who may write a claim's status is asked
        # whether he may bind it as well.
        others = {
            ("patch", "podgroups.scheduling.volcano.sh", ""),
            ("patch", "resourceclaims.resource.k8s.io", "binding"),
        }
        assert writes - wanted == others


async def test_candidates_need_the_other_one_too(database_url: str) -> None:
    async with staged(database_url) as stage:
        source = await reserved_with_a_claim(stage)
        source.permits("c")
        await until(lambda: source.status("c").get("phase") == "Bound")
        assert asked(stage) - given(PLAIN, CANDIDATES, OF_LEASES) == set()
        assert asked(stage) - given(PLAIN, OF_LEASES) != set()
