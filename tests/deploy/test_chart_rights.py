"""What the chart grants is what the service needs by its settings, as the doctor asks for it: no right is missing, and
none is there that nothing uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.app.claims import lease_names, scheduler_lease_names
from controlplane.app.scheduler_profiles import load as load_profiles
from controlplane.doctor.rights import needed_on_management, needed_on_workers
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import LEASES
from controlplane.settings import Settings
from controlplane.settings.load import load
from tests.deploy.charts import helm, template
from tests.deploy.manifests import Object, one
from tests.support.deep import deep_but

CONTROLLERS = ("multikueue", "candidates", "podgroups", "coscheduling")
NEEDED = {"candidates": {"cluster": "campus"}, "coscheduling": {"image": "nop:1"}}
SERVED = {"enabled": True, "certificate": {"existingSecret": "served", "caBundle": "Q0E="}}


def of(*controllers: str, **settings: Any) -> Object:
    return {"settings": {**NEEDED, "run": {"controllers": list(controllers)}, **settings}}


def kinds(*names: str) -> Object:
    return {"kinds": list(names), "podGate": "own"}


BUILTIN = {"mode": "builtin"}
NEVER_WITHOUT_A_QUEUE = ("multikueue-controlplane-default-queue", "tekton.dev/pipelinerun")
PROFILES: dict[str, Object] = {
    **{
        f"{'+'.join(chosen)} {mode}": of(*chosen, quota={"mode": mode})
        for count in (1, 4)
        for chosen in itertools.combinations(CONTROLLERS, count)
        for mode in ("kueue", "builtin")
    },
    **{
        f"{name} {mode}": of("multikueue", multikueue=kinds(name), quota={"mode": mode})
        for name in ("pod", "deployment", "statefulset", "tekton.dev/pipelinerun", "trainer.kubeflow.org/trainjob")
        for mode in ("kueue", "builtin")
    },
    "the webhook": {**of("multikueue"), "webhook": SERVED},
    "the webhook where quota is decided on": {**of("podgroups", quota=BUILTIN), "webhook": SERVED},
    "what is ours alone": of("multikueue", multikueue={"recordedWorkloads": "own"}),
    "ClusterProfiles": of("multikueue", multikueue={"clusterProfile": {"enabled": "yes"}}),
    "quota automation": of("multikueue", multikueue={"quotaAutomation": "yes"}),
    "virtual nodes": of("candidates", candidates={"cluster": "c", "virtualNodes": {"enabled": "yes"}}),
    "a kubelet": {
        **of("candidates", candidates={"cluster": "c", "virtualNodes": {"enabled": "yes", "nodeAddress": "10.0.0.7"}}),
        "virtualNodes": {"certificate": {"existingSecret": "kubelet"}},
    },
    "the visibility API": {**of("multikueue", quota=BUILTIN), "visibility": SERVED},
    "jobs that are deleted": of(
        "multikueue",
        multikueue=kinds("batch/job", "pod"),
        quota={**BUILTIN, "objectRetention": {"afterDeactivated": "1h"}},
    ),
    "Leases elsewhere": of("multikueue", leader={"leaseNamespace": "leases"}),
    "no Leases": of("multikueue", leader={"leaseNamespace": ""}),
    "Tekton elsewhere": of("coscheduling", coscheduling={"image": "nop:1", "configNamespace": "tekton"}),
    "Tekton elsewhere, by its own value": {**of("coscheduling"), "coscheduling": {"namespace": "tekton"}},
}

#: What `make test` renders: each controller alone, all of them, and each value that brings rights of its own.
KEPT_PROFILES = [name for name in PROFILES if not name.endswith((" kueue", " builtin"))] + [
    *(f"{name} builtin" for name in ("multikueue", "candidates", "coscheduling", "statefulset")),
    *(f"{name} kueue" for name in ("podgroups", "pod", "+".join(CONTROLLERS))),
]
#: An ordinary kind, one whose pods wait, and the one that no queue is made up for.
KEPT_KINDS = ("batch/job", "statefulset", "tekton.dev/pipelinerun")


def loaded(objects: list[Object], tmp_path: Path) -> Settings:
    path = tmp_path / "settings.yaml"
    path.write_text(one(objects, "ConfigMap", "controlplane-settings")["data"]["settings.yaml"])
    return load(path, {})


def granted(objects: list[Object], account: str) -> Iterator[AccessRight]:
    """Yield the rights that are bound to an account, each where it holds."""
    roles = {(item["kind"], item["metadata"]["name"]): item for item in objects if "rules" in item}
    for item in objects:
        if item["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        role = roles.get((item["roleRef"]["kind"], item["roleRef"]["name"]))
        if role is None or account not in [subject.get("name") for subject in item["subjects"]]:
            continue
        namespace = item["metadata"]["namespace"] if item["kind"] == "RoleBinding" else ""
        for rule in role["rules"]:
            for group, resource, verb, name in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
            ):
                yield AccessRight(group=group, resource=resource, verb=verb, namespace=namespace, name=name)


def covers(has: AccessRight, needed: AccessRight) -> bool:
    same = (has.group, has.resource, has.verb) == (needed.group, needed.resource, needed.verb)
    return same and has.namespace in ("", needed.namespace) and has.name in ("", needed.name)


@helm
@pytest.mark.parametrize("name", deep_but(KEPT_PROFILES, PROFILES))
def test_each_profile_has_the_rights_that_it_uses_and_no_others(name: str, tmp_path: Path) -> None:
    objects = template(PROFILES[name])
    needed = [one.right for one in needed_on_management(loaded(objects, tmp_path)) if not one.bind]
    has = list(granted(objects, "controlplane"))
    assert [right for right in needed if not any(covers(one, right) for one in has)] == []
    unused = [right for right in has if not any(covers(right, one) for one in needed)]
    # Leases have names of ours, of every controller: those of one that is off are there as well.
    assert [right for right in unused if right.resource != LEASES.plural] == []


@helm
@pytest.mark.parametrize("name", deep_but(KEPT_KINDS, JOB_KINDS))
@pytest.mark.parametrize("quota", [False, True])
def test_a_worker_has_the_rights_for_its_kinds(name: str, quota: bool, tmp_path: Path) -> None:
    automation = {"quotaAutomation": "yes" if quota else "no"}
    values = of("multikueue", multikueue={**kinds(name), **automation})
    values["worker"] = {"enabled": True, "kinds": [name], "quota": quota}
    objects = template(values)
    needed = [one.right for one in needed_on_workers(loaded(objects, tmp_path))]
    has = list(granted(objects, "controlplane-worker"))
    assert [right for right in needed if not any(covers(one, right) for one in has)] == []
    assert [right for right in has if not any(covers(right, one) for one in needed)] == []


@helm
@pytest.mark.parametrize("name", deep_but(KEPT_KINDS, JOB_KINDS))
@pytest.mark.parametrize("controllers", [["multikueue"], ["podgroups"]])
def test_the_webhook_is_asked_about_every_kind_and_about_the_pods_of_those_whose_pods_wait(
    name: str, controllers: list[str]
) -> None:
    kind = JOB_KINDS[name]
    values = {**of(*controllers, multikueue=kinds(name), quota=BUILTIN), "webhook": {**SERVED, "defaultQueue": True}}
    objects = template(values)
    for webhooks in ("multikueue-controlplane", "multikueue-controlplane-default-queue"):
        asked = {
            (group, resource)
            for webhook in one(objects, "MutatingWebhookConfiguration", webhooks)["webhooks"]
            for rule in webhook["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        pods = {("", "pods")} if kind.suspends_pods else set()
        alone = {(kind.kind.group, kind.kind.plural)} if (webhooks, name) != NEVER_WITHOUT_A_QUEUE else set()
        assert asked == alone | pods


_LONG = "a" * 240
PROFILE_NAMES: dict[str, list[str]] = {
    "one": ["controlplane"],
    "kube-scheduler's own": [""],
    "several": ["controlplane", "gpu", "batch.example.com"],
    "what no object may be called": ["My_Scheduler", _LONG, "a..b", "trailing-", "größer"],
}


@helm
@pytest.mark.parametrize("name", PROFILE_NAMES)
@pytest.mark.parametrize("candidates", [True, False])
def test_a_scheduler_has_the_right_to_each_lease_that_it_may_hold(name: str, candidates: bool, tmp_path: Path) -> None:
    profiles = [{"schedulerName": one} if one else {"plugins": {}} for one in PROFILE_NAMES[name]]
    scheduler = {"enabled": True, "candidates": candidates, "profiles": profiles}
    objects = template({"controlPlane": {"enabled": False}, "scheduler": scheduler})
    data = one(objects, "ConfigMap", "controlplane-scheduler")["data"]
    for file, text in data.items():
        (tmp_path / file).write_text(text)
    settings = load(tmp_path / "settings.yaml", {"CONTROLPLANE_DATABASE_URL": "postgresql://a:b@db/c"})
    names = scheduler_lease_names(settings, load_profiles(str(tmp_path / "profiles.yaml")).names)
    assert len(names) == len(profiles) + candidates
    has = list(granted(objects, "controlplane-scheduler"))
    for verb in ("get", "patch"):
        allowed = {right.name for right in has if (right.resource, right.verb) == (LEASES.plural, verb)}
        assert allowed >= set(names)
        assert allowed <= {*names, "controlplane.candidate-target"}


@helm
@pytest.mark.parametrize("given", [{"origin": "Campus_1"}, {"controllerName": "example.com/My_Name"}])
def test_a_service_has_the_right_to_leases_of_what_no_object_may_be_called(
    given: dict[str, str], tmp_path: Path
) -> None:
    objects = template(of("multikueue", multikueue=given))
    has = {right.name for right in granted(objects, "controlplane") if right.resource == LEASES.plural}
    assert has >= set(lease_names(loaded(objects, tmp_path)))
