"""What else a pod needs in a target: its ServiceAccount, its claims, the Services that it asks for. It comes where the
CandidateSource allows the kind, and is named where it does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import ACCOUNTS, CANDIDATE_SOURCES, OPT_SERVICES, SOURCE_LABEL
from controlplane.controllers.candidates.source.delegate_status import FOLLOWED
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICES, Json, Kind, meta
from tests.candidates.e2e.stage import NS, Stage

Make = Callable[..., Awaitable[Stage]]
EVERY = ["PersistentVolumeClaim", "Service", "ServiceAccount"]
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
    "volumeName": "pv-of-the-source",
}
SERVICE = {
    "type": "LoadBalancer",
    "clusterIP": "10.0.0.7",
    "externalIPs": ["192.0.2.1"],
    "selector": {"app": "db", "tier": "x"},
    "ports": [{"name": "sql", "port": 5432, "targetPort": 5432, "nodePort": 30001}],
}


def put(it: Stage, kind: Kind, name: str, where: str = "", **parts: Any) -> Json:
    store = it.world.clusters[where].store if where else it.store
    head = {"name": name, "namespace": NS}
    made: Json = store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head, **parts})
    return made


def there(it: Stage, kind: Kind, name: str, target: str = "east") -> Json:
    """Return an object of a target, empty where there is none."""
    try:
        found: Json = it.world.clusters[target].store.get(kind, NS, name)
    except ApiError:
        return {}
    return found


def allow(it: Stage, kinds: list[str], **more: Any) -> None:
    body = {"spec": {"follow": kinds, "serviceAccounts": ["default", "builder"], **more}}
    it.world.clusters["east"].store.patch(CANDIDATE_SOURCES, NS, "home", body)


def needy() -> dict[str, Any]:
    return {
        "serviceAccountName": "builder",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "annotations": {OPT_SERVICES: "db"},
    }


async def test_they_come_where_they_are_allowed_without_what_means_nothing_there(stage: Make) -> None:
    it = await stage("east")
    allow(it, EVERY)
    put(it, ACCOUNTS, "builder", automountServiceAccountToken=False, secrets=[{"name": "token"}])
    put(it, PERSISTENT_VOLUME_CLAIMS, "data", spec=CLAIM)
    put(it, SERVICES, "db", spec=SERVICE)
    it.submit(**needy())
    await it.placed(where="east")
    await it.until(lambda: there(it, SERVICES, "db") and there(it, PERSISTENT_VOLUME_CLAIMS, "data"), "copied")
    account = await it.until(lambda: there(it, ACCOUNTS, "builder"), "copied")
    assert (account.get("secrets"), account["automountServiceAccountToken"]) == (None, False)
    assert there(it, PERSISTENT_VOLUME_CLAIMS, "data")["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }
    service = there(it, SERVICES, "db")
    assert meta(service)["labels"][SOURCE_LABEL]
    assert {"clusterIP", "externalIPs"}.isdisjoint(service["spec"]) or service["spec"].get("clusterIP") != "10.0.0.7"
    assert (service["spec"]["type"], service["spec"]["selector"]) == ("ClusterIP", {"app": "db", "tier": "x"})
    assert service["spec"]["ports"][0]["port"] == 5432
    assert "nodePort" not in service["spec"]["ports"][0]


async def test_a_service_follows_its_changes_and_what_is_needed_no_more_goes_but_a_claim(stage: Make) -> None:
    it = await stage("east")
    allow(it, EVERY)
    put(it, PERSISTENT_VOLUME_CLAIMS, "data", spec=CLAIM)
    put(it, SERVICES, "db", spec=SERVICE)
    put(it, ACCOUNTS, "builder")
    it.submit(**needy())
    await it.until(lambda: there(it, SERVICES, "db"), "copied")
    it.store.patch(SERVICES, NS, "db", {"spec": {"selector": {"tier": None, "app": "sql"}, "ports": [{"port": 5433}]}})
    changed = await it.until(
        lambda: (found := there(it, SERVICES, "db"))["spec"]["selector"] == {"app": "sql"} and found,
        "the change followed",
    )
    assert [port["port"] for port in changed["spec"]["ports"]] == [5433]
    it.delete()
    await it.until(lambda: not there(it, SERVICES, "db") and not there(it, ACCOUNTS, "builder"), "removed with the pod")
    assert there(it, PERSISTENT_VOLUME_CLAIMS, "data"), "what was written there is its user's"


async def test_what_is_not_allowed_does_not_come_and_a_service_is_named(stage: Make) -> None:
    it = await stage("east")
    allow(it, [])
    for kind in (ACCOUNTS, PERSISTENT_VOLUME_CLAIMS, SERVICES):
        put(it, kind, {"ServiceAccount": "builder", "Service": "db"}.get(kind.kind, "data"), spec={})
    it.submit(**needy())
    await it.placed(where="east")
    said = "Service db: the CandidateSource there lets none follow: add Service to spec.follow"
    await it.until(lambda: it.condition(kind=FOLLOWED).get("message") == said, "said")
    assert not any(there(it, kind, name) for kind, name in ((ACCOUNTS, "builder"), (SERVICES, "db")))
    allow(it, ["Service"])
    await it.until(lambda: there(it, SERVICES, "db"), "allowed since")
    await it.until(lambda: it.condition(kind=FOLLOWED).get("status") == "True", "said")


async def test_an_account_that_is_not_lent_is_refused_by_name(stage: Make) -> None:
    it = await stage("east")
    allow(it, EVERY, serviceAccounts=["default"])
    put(it, ACCOUNTS, "builder")
    it.submit(serviceAccountName="builder")
    said = (
        'CandidateSource "home" does not lend ServiceAccount "builder": add it to spec.serviceAccounts, or use another'
    )
    await it.until(lambda: said in it.condition().get("message", ""), "refused")


async def test_what_is_somebody_elses_is_left_and_named(stage: Make) -> None:
    it = await stage("east")
    allow(it, EVERY)
    put(it, SERVICES, "db", spec=SERVICE)
    put(it, SERVICES, "db", where="east", spec={"ports": [{"port": 1}]})
    it.submit(annotations={OPT_SERVICES: "db"})
    said = "Service db: one of that name is in the target and is not ours: it is left as it is"
    await it.until(lambda: it.condition(kind=FOLLOWED).get("message") == said, "said")
    it.delete()
    await it.quiet(0.3)
    assert there(it, SERVICES, "db")["spec"]["ports"][0]["port"] == 1


async def test_a_service_that_leads_outside_is_not_copied(stage: Make) -> None:
    it = await stage("east")
    allow(it, EVERY)
    put(it, SERVICES, "db", spec={"type": "ExternalName", "externalName": "db.example.com"})
    it.submit(annotations={OPT_SERVICES: "db"})
    await it.until(
        lambda: it.condition(kind=FOLLOWED).get("message", "").startswith("Service db: spec.type: a Service of type"),
        "said",
    )
    assert not there(it, SERVICES, "db")
