"""The rights for dispatching PipelineRuns are exactly what is watched, read and written for it."""

from __future__ import annotations

import pytest

from controlplane.controllers.coscheduling.feasibility.hosting import watches
from controlplane.controllers.coscheduling.flags import FLAGS_NAME
from controlplane.settings import Settings
from tests.deploy.manifests import Object, one, render, rights

SEE = ("get", "list", "watch")
MANAGEMENT, WORKER = "deploy/pipelineruns/management", "deploy/pipelineruns/worker"


def test_management() -> None:
    assert rights(one(render(MANAGEMENT), "ClusterRole")) == {
        "tekton.dev/pipelineruns": SEE,
        "tekton.dev/pipelineruns/status": ("patch",),
    }


def test_worker() -> None:
    objects = render(WORKER)
    assert rights(one(objects, "ClusterRole")) == {
        "tekton.dev/pipelineruns": tuple(sorted((*SEE, "create", "delete"))),
        "core/nodes": ("list", "watch"),
        "storage.k8s.io/storageclasses": ("list", "watch"),
        "core/pods": ("list", "watch"),
        "core/persistentvolumeclaims": ("get",),
        "core/persistentvolumes": ("get",),
        "tekton.dev/pipelines": ("get",),
        "tekton.dev/tasks": ("get",),
    }
    assert rights(one(objects, "Role")) == {f"core/configmaps[{FLAGS_NAME}]": ("list", "watch")}


def test_what_is_watched_may_be_watched_where_it_is() -> None:
    objects, settings = render(WORKER), Settings()
    everywhere = rights(one(objects, "ClusterRole"))
    for spec in watches(settings):
        if spec.namespace:
            # A right for one object holds for a watch that selects it by name.
            assert spec.field_selector == f"metadata.name={FLAGS_NAME}"
            assert one(objects, "Role")["metadata"]["namespace"] == spec.namespace
        else:
            assert {"list", "watch"} <= set(everywhere[f"{spec.kind.group or 'core'}/{spec.kind.plural}"])


@pytest.mark.parametrize(("folder", "account"), [(MANAGEMENT, "controlplane"), (WORKER, "controlplane-worker")])
def test_every_binding_has_its_role_and_the_account_of_the_other_rights(folder: str, account: str) -> None:
    objects: list[Object] = render(folder)
    known = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for item in objects:
        if item["kind"].endswith("RoleBinding"):
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in known
            assert item["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "kueue-system"}]
