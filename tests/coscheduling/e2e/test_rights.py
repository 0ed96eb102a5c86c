"""Whatever both controllers ask of an API server in a whole life of pods and runs is allowed by the roles in
`deploy`.
"""

from __future__ import annotations

from controlplane.kube.kinds import PIPELINE_RUNS
from tests.coscheduling.e2e.test_runs import left, placeholder, run, succeeded
from tests.deploy.manifests import Object, one, render, spelled
from tests.podgroups.e2e.test_groups import BY_DEPLOYMENT, deployment, rules, running
from tests.support.local import NS, Make


def allowed() -> set[tuple[str, str]]:
    roles: list[Object] = []
    for name in ("podgroups", "coscheduling"):
        objects = render(f"deploy/{name}")
        roles += [one(objects, kind, f"controlplane-{name}") for kind in ("ClusterRole", "Role")]
    roles.append(one(render("deploy/rbac/management"), "ClusterRole", "controlplane-leases"))
    return spelled(roles)


async def test_nothing_is_asked_that_is_not_allowed(stage: Make) -> None:
    it = await stage("podgroups", "coscheduling", start=False)
    rules(it, BY_DEPLOYMENT)
    deployment(it, "web", 2)
    await it.up()
    await it.until(lambda: running(it, "web") == 2, "running pods")
    run(it, duration="500ms")
    node = (await it.until(lambda: placeholder(it), "its placeholder"))["spec"]["nodeName"]
    await it.until(lambda: it.said("PlaceholderReady"), "its readiness in the log")
    it.cordon(node)
    await it.until(lambda: succeeded(it) and left(it) == [], "the run's end")
    run(it, "bad", workspaces=[{"name": "src"}])
    await it.until(lambda: it.said("RunRefused"), "the refusal")
    it.store.delete(PIPELINE_RUNS, NS, "bad", propagation="Background")
    counts = it.cluster.server.counts
    asked = {
        (verb, f"{resource}/{sub}" if sub else resource) for (verb, resource, sub), count in counts.items() if count
    }
    asked |= {("watch", resource) for resource, count in it.cluster.server.watches.items() if count}
    assert asked - allowed() == set()
    written = {verb for verb, _ in asked}
    assert {"create", "patch", "delete", "list", "watch"} <= written
