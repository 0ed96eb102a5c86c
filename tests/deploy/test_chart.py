"""The chart: rendered by Helm itself, held against the kustomizations that it is made of, and against the settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from controlplane.settings.load import load
from controlplane.settings.model import Settings
from tests.deploy import chart_files
from tests.deploy.chart_files import CHART
from tests.deploy.charts import CLOUD_NATIVE, EVERYTHING, GOLDEN, by_name, helm, kinds_of, refused, run, template
from tests.deploy.manifests import ROOT, Object, documents, one, render, rights
from tests.deploy.neighbours import SPECS, definition
from tests.deploy.strict import faults, schemas


def test_the_files_are_those_of_the_kustomizations() -> None:
    assert chart_files.present() == chart_files.wanted(), "make chart"
    written = (CHART / "values.schema.json").read_text()
    assert written == chart_files.spelled(chart_files.values_schema()), "make chart"


def test_its_settings_are_those_of_the_kustomization_and_of_the_program() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    given = values["settings"]
    base = yaml.safe_load((ROOT / "deploy/base/settings.yaml").read_text())
    assert {**base["multikueue"], "kinds": list(Settings().multikueue.kinds)} == given["multikueue"]
    assert base["log"] == given["log"]
    assert given["run"]["controllers"] == list(Settings().run.controllers)
    assert values["worker"]["kinds"] == given["multikueue"]["kinds"]
    assert values["scheduler"]["settings"] == yaml.safe_load((ROOT / "deploy/scheduler/settings.yaml").read_text())
    assert (
        values["scheduler"]["profiles"]
        == yaml.safe_load((ROOT / "deploy/scheduler/profiles.yaml").read_text())["profiles"]
    )


def test_its_version_is_that_of_the_program() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == project["version"]


@helm
def test_helm_finds_no_fault_with_it() -> None:
    for values in ({}, EVERYTHING, CLOUD_NATIVE):
        done = run("lint", "--strict", str(CHART), values=values)
        assert done.returncode == 0, done.stdout + done.stderr


@helm
def test_by_default_it_is_the_kustomization_with_the_rights_of_two_kinds() -> None:
    chart, base = by_name(template()), by_name(render("deploy/base"))
    settings = ("ConfigMap", "controlplane-settings")
    jobs = ("ClusterRole", "controlplane-management-jobs")
    assert chart.keys() == base.keys()
    kinds = Settings().multikueue.kinds
    assert rights(chart[jobs]) == kinds_of("management", kinds) != rights(base[jobs])
    assert yaml.safe_load(chart[settings]["data"]["settings.yaml"])["multikueue"]["origin"] == "multikueue"
    for key in chart.keys() - {settings, jobs}:
        assert chart[key] == base[key], key


@helm
def test_a_worker_and_a_scheduler_are_their_kustomizations() -> None:
    worker = by_name(template({"controlPlane": {"enabled": False}, "worker": {"enabled": True}}))
    wanted = by_name(render("deploy/rbac/worker"))
    jobs = ("ClusterRole", "controlplane-worker-jobs")
    assert rights(worker.pop(jobs)) == kinds_of("worker", Settings().multikueue.kinds)
    wanted.pop(jobs)
    assert worker == wanted
    values = {"controlPlane": {"enabled": False}, "scheduler": {"enabled": True}}
    scheduler = by_name(template(values, namespace="controlplane-system"))
    wanted = by_name(item for item in render("deploy/scheduler") if item["kind"] != "Namespace")
    settings = ("ConfigMap", "controlplane-scheduler")
    parsed = [
        {name: yaml.safe_load(text) for name, text in found.pop(settings)["data"].items()}
        for found in (scheduler, wanted)
    ]
    assert parsed[0] == parsed[1]
    assert scheduler == wanted


@helm
def test_a_scheduler_without_candidates_takes_none() -> None:
    """Else the release that comes first would take them."""
    for given, wanted in (({}, "no"), ({"settings": {"scheduler": {"takeCandidates": "yes"}}}, "yes")):
        scheduler = {"enabled": True, "candidates": False, **given}
        found = by_name(template({"controlPlane": {"enabled": False}, "scheduler": scheduler}))
        text = found["ConfigMap", "controlplane-scheduler"]["data"]["settings.yaml"]
        assert yaml.safe_load(text)["scheduler"]["takeCandidates"] == wanted


@helm
@pytest.mark.parametrize("controller", ["multikueue", "candidates", "podgroups", "coscheduling"])
def test_a_controller_that_is_off_has_no_rights(controller: str) -> None:
    rest = [name for name in EVERYTHING["settings"]["run"]["controllers"] if name != controller]  # type: ignore[index]
    settings = {**EVERYTHING["settings"], "run": {"controllers": rest}}  # type: ignore[dict-item]
    objects = template({"settings": settings})
    names = " ".join(item["metadata"]["name"] for item in objects if item["kind"].startswith(("Role", "ClusterRole")))
    words = {
        "multikueue": "management-jobs",
        "candidates": "candidates",
        "podgroups": "podgroups",
        "coscheduling": "coscheduling",
    }
    assert words[controller] not in names
    assert all(words[other] in names for other in rest)


@helm
def test_the_settings_that_it_writes_can_be_loaded(tmp_path: Path) -> None:
    settings = one(template(EVERYTHING), "ConfigMap", "controlplane-settings")["data"]["settings.yaml"]
    path = tmp_path / "settings.yaml"
    path.write_text(settings)
    container = one(template(EVERYTHING), "Deployment", "controlplane")["spec"]["template"]["spec"]["containers"][0]
    address = next(v for v in container["env"] if v["name"] == "CONTROLPLANE_CANDIDATES_VIRTUAL_NODES_NODE_ADDRESS")
    assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    loaded = load(path, {"CONTROLPLANE_DATABASE_URL": "postgresql://a:b@db/c", address["name"]: "10.0.0.7"})
    assert loaded.webhook.certificate == "/etc/controlplane-admission/tls.crt"
    assert loaded.run.controllers == ("multikueue", "candidates", "podgroups", "coscheduling")
    assert {"name": "admission", "containerPort": loaded.webhook.port} in container["ports"]
    mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert {"/etc/controlplane-admission", "/etc/controlplane-visibility"} <= set(mounted)
    assert loaded.quota.visibility.certificate == "/etc/controlplane-visibility/tls.crt"
    assert {"name": "visibility", "containerPort": loaded.quota.visibility.port} in container["ports"]
    assert loaded.candidates.virtual_nodes.certificate == "/etc/controlplane-kubelet/tls.crt"
    assert {"name": "kubelet", "containerPort": 10250} in container["ports"]


@helm
def test_the_visibility_api_is_trusted_by_its_certificate() -> None:
    builtin = {"quota": {"mode": "builtin"}}
    made = template(
        {"settings": builtin, "visibility": {"enabled": True, "certificate": {"certManager": {"enabled": True}}}},
        release="other",
        namespace="queues",
    )
    services = [item for item in made if item["kind"] == "APIService"]
    assert [item["spec"]["version"] for item in services] == ["v1beta1", "v1beta2"]
    service = one(made, "Service", "other-controlplane-visibility")
    for item in services:
        place = item["spec"]["service"]
        assert (place["name"], place["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"])
        certificate = one(made, "Certificate", "other-controlplane-visibility")["metadata"]
        assert item["metadata"]["annotations"] == {
            "cert-manager.io/inject-ca-from": f"{certificate['namespace']}/{certificate['name']}"
        }
        assert "insecureSkipTLSVerify" not in item["spec"]
    assert one(made, "Role", "other-controlplane-visibility")["metadata"]["namespace"] == "kube-system"
    assert not [item for item in template({"settings": builtin}) if "visibility" in item["metadata"]["name"]]


@helm
def test_the_pages_are_reached_by_others_only_if_they_listen_to_them() -> None:
    def found(**web: str) -> list[str]:
        objects = template({"settings": {"web": web}})
        return sorted(
            f"{item['kind']} {item['metadata']['name']}" for item in objects if "-web" in item["metadata"]["name"]
        )

    assert found() == found(address="0.0.0.0", authentication="token") == found(serve="yes") == []
    both = ["ClusterRoleBinding controlplane-web", "Service controlplane-web"]
    assert found(serve="yes", address="0.0.0.0", authentication="proxy") == both
    container = one(template(EVERYTHING), "Deployment", "controlplane")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "web", "containerPort": Settings().web.port} in container["ports"]
    assert one(render("deploy/web"), "Service")["spec"]["ports"][0]["targetPort"] == Settings().web.port


@helm
def test_every_name_begins_with_the_release_s_and_nothing_is_left_elsewhere() -> None:
    first, second = template(EVERYTHING, "blue", "east"), template(EVERYTHING, "green", "west")
    wide = [
        {(item["kind"], item["metadata"]["name"]) for item in found if "namespace" not in item["metadata"]}
        for found in (first, second)
    ]
    shared = {(kind, name) for kind, name in wide[0] & wide[1] if kind != "CustomResourceDefinition"}
    assert shared == {
        *{("APIService", f"{version}.visibility.kueue.x-k8s.io") for version in ("v1beta1", "v1beta2")},
        *{("ClusterRole", f"kueue-pending-workloads-{queue}-viewer-role") for queue in ("cq", "lq")},
    }, "two releases in one cluster share definitions, and what one of them alone may decide on"
    text = json.dumps(first)
    assert "kueue-system" not in text
    assert "controlplane-system" not in text
    for item in first:
        for subject in item.get("subjects", ()):
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "east")
            assert one(first, "ServiceAccount", subject["name"])
        if item["kind"].endswith("RoleBinding") and not item["roleRef"]["name"].startswith("system:"):
            assert one(first, item["roleRef"]["kind"], item["roleRef"]["name"])


@helm
def test_services_and_budgets_select_their_own_pods_alone() -> None:
    objects = template(EVERYTHING)
    pods = {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"]
        for item in objects
        if item["kind"] == "Deployment"
    }
    for item in objects:
        if item["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"):
            said = item["spec"].get("selector") or item["spec"]["podSelector"]
            selector = said.get("matchLabels", said)
            chosen = [name for name, labels in pods.items() if selector.items() <= labels.items()]
            wanted = "controlplane-scheduler" if "scheduler" in item["metadata"]["name"] else "controlplane"
            assert chosen == [wanted], item["metadata"]["name"]


@helm
@pytest.mark.parametrize("values", [{}, EVERYTHING, CLOUD_NATIVE], ids=["default", "everything", "cloudnative"])
def test_every_object_is_one_that_an_api_server_takes(values: Object) -> None:
    """Unknown fields, types and required fields; of other projects' kinds, as far as their schemas are written down
    here."""
    known = {key: found for api, kind in SPECS for key, found in schemas(definition(api, kind)).items()}
    objects = [item for item in template(values) if not item["kind"].startswith("MutatingAdmissionPolicy")]
    assert len(objects) > 10
    assert {item["metadata"]["name"]: found for item in objects if (found := faults(item, known))} == {}


@helm
def test_an_alert_leads_to_its_page() -> None:
    rules = one(template(EVERYTHING), "PrometheusRule")["spec"]["groups"][0]["rules"]
    for rule in rules:
        url = rule["annotations"]["runbook_url"]
        assert url.startswith("https://controlplane.dev/docs/howto/")
        assert (ROOT / "docs" / f"{url.removeprefix('https://controlplane.dev/docs/').strip('/')}.md").exists()


@helm
def test_the_owner_s_password_is_where_the_service_cannot_read_it() -> None:
    for values in (EVERYTHING, CLOUD_NATIVE):
        objects = template(values)
        assert one(objects, "Job")["metadata"]["namespace"] != "kueue-system"
        assert "controlplane_owner" not in json.dumps(
            [item for item in objects if item["kind"] in ("Deployment", "Secret")]
        )
    cluster = one(template(CLOUD_NATIVE), "Cluster")
    assert cluster["spec"]["bootstrap"]["initdb"]["owner"] == "controlplane_owner"
    revoked = [line for line in cluster["spec"]["bootstrap"]["initdb"]["postInitApplicationSQL"] if "lo_" in line]
    assert len(revoked) == (ROOT / "deploy/postgres/rights.sql").read_text().count("\nREVOKE EXECUTE")
    secrets = [item for item in template(CLOUD_NATIVE) if item["kind"] == "Secret"]
    assert len({item["data"]["password"] for item in secrets}) == 1
    assert {item["metadata"]["namespace"] for item in secrets} == {"kueue-system", cluster["metadata"]["namespace"]}


@helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"settings": {"multikueue": {"kind": ["batch/job"]}}}, "Additional property kind is not allowed"),
        ({"settings": {"multikueue": {"kinds": ["batch/jobs"]}}}, "settings.multikueue.kinds.0 must be one of"),
        ({"settings": {"http": {"port": 70000}}}, "Must be less than or equal to 65535"),
        ({"replicas": 3}, "Additional property replicas is not allowed"),
        ({"image": {"digest": "sha256:123"}}, "image.digest"),
        ({"webhook": {"enabled": True}}, "webhook.enabled needs a certificate"),
        (
            {"webhook": {"enabled": True, "defaultQueue": True, "certificate": {"existingSecret": "admission"}}},
            "webhook.certificate.caBundle is needed",
        ),
        ({"visibility": {"enabled": True}}, "visibility.enabled needs settings.quota.mode: builtin"),
        (
            {"settings": {"quota": {"mode": "builtin"}}, "visibility": {"enabled": True}},
            "visibility.enabled needs a certificate",
        ),
        ({"database": {"migrate": {"enabled": True, "namespace": "default"}}}, "must not be the release's"),
        (
            {"database": {"cloudNativePG": {"enabled": True, "namespace": "default"}}},
            "database.cloudNativePG.namespace must not be the release's",
        ),
    ],
)
def test_values_that_make_no_sense_are_refused(values: Object, said: str) -> None:
    assert said in refused(values).replace("property '", "property ").replace("' is not", " is not")


@helm
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("default", {}),
        ("worker", {"controlPlane": {"enabled": False}, "worker": {"enabled": True}}),
        ("everything", EVERYTHING),
    ],
)
def test_what_is_rendered_changes_on_purpose_alone(name: str, values: Object) -> None:
    """`UPDATE_GOLDEN=1 pytest tests/deploy/test_chart.py` writes them anew."""
    done = run("template", "controlplane", str(CHART), "--namespace", "kueue-system", values=values)
    left_out = ("CustomResourceDefinition", "PrometheusRule")  # files of ours as they are
    short = [item for item in documents(done.stdout) if item["kind"] not in left_out]
    for item in short:
        if "dashboard" in item["metadata"]["name"]:
            item["data"] = dict.fromkeys(item["data"], "…")
    found = yaml.safe_dump_all(short, sort_keys=True, allow_unicode=True, width=120)
    path = GOLDEN / f"chart-{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()
