"""The custom kinds of other projects that our manifests use: the fields that we write, as their projects' schemas have
them.

They stand in where the projects' CustomResourceDefinitions are not at hand (`CONTROLPLANE_TEST_CRDS` names their
folder). What is not here is refused, so whoever uses another field looks it up: Kueue's apis/kueue/v1beta2/*_types.go
(v0.18), the Prometheus operator's pkg/apis/monitoring/v1/*_types.go (v0.86), cert-manager's
pkg/apis/certmanager/v1/types_{certificate,issuer}.go (v1.19), CloudNativePG's api/v1/cluster_types.go (v1.27)."""

from __future__ import annotations

from tests.deploy.manifests import Object

TEXT: Object = {"type": "string"}
COUNT: Object = {"x-kubernetes-int-or-string": True}
TEXTS: Object = {"type": "array", "items": TEXT}
MAP: Object = {"type": "object", "additionalProperties": TEXT}


def of(*required: str, **fields: Object) -> Object:
    return {"type": "object", "properties": fields, "required": list(required)}


def many(item: Object) -> Object:
    return {"type": "array", "items": item}


RULE = of(
    "expr", alert=TEXT, record=TEXT, expr=COUNT, labels=MAP, annotations=MAP, **{"for": TEXT, "keep_firing_for": TEXT}
)
QUOTA = of("name", "nominalQuota", name=TEXT, nominalQuota=COUNT, borrowingLimit=COUNT, lendingLimit=COUNT)
GROUP = of(
    "coveredResources",
    "flavors",
    coveredResources=TEXTS,
    flavors=many(of("name", "resources", name=TEXT, resources=many(QUOTA))),
)
CHECKS = of(admissionChecks=many(of("name", name=TEXT, onFlavors=TEXTS)))
FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
FLAG: Object = {"type": "boolean"}
SELECTOR = of(matchLabels=MAP)
ENDPOINT = of(port=TEXT, path=TEXT, interval=TEXT)
NAMED = of("name", name=TEXT)
STORAGE = of(size=TEXT, storageClass=TEXT)
INITDB = of(database=TEXT, owner=TEXT, encoding=TEXT, postInitSQL=TEXTS, postInitApplicationSQL=TEXTS)
ROLE = of("name", name=TEXT, ensure=TEXT, login=FLAG, connectionLimit={"type": "integer"}, passwordSecret=NAMED)
SPECS: dict[tuple[str, str], Object] = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): of("endpoints", selector=SELECTOR, endpoints=many(ENDPOINT)),
    ("monitoring.coreos.com/v1", "PodMonitor"): of(selector=SELECTOR, podMetricsEndpoints=many(ENDPOINT)),
    ("cert-manager.io/v1", "Issuer"): of(selfSigned=of()),
    ("cert-manager.io/v1", "Certificate"): of(
        "secretName",
        "issuerRef",
        secretName=TEXT,
        dnsNames=TEXTS,
        issuerRef=of("name", group=TEXT, kind=TEXT, name=TEXT),
        privateKey=of(rotationPolicy=TEXT),
    ),
    ("postgresql.cnpg.io/v1", "Cluster"): of(
        "instances",
        instances={"type": "integer"},
        imageName=TEXT,
        storage=STORAGE,
        walStorage=STORAGE,
        resources=FREE,
        bootstrap=of(initdb=INITDB),
        managed=of(roles=many(ROLE)),
        postgresql=of(synchronous=of("method", "number", method=TEXT, number={"type": "integer"}), parameters=MAP),
        backup=FREE,
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): of(
        groups=many(of("name", name=TEXT, interval=TEXT, rules=many(RULE)))
    ),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): of(nodeLabels=MAP),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): of(
        cohortName=TEXT,
        queueingStrategy=TEXT,
        namespaceSelector=of(matchLabels=MAP),
        resourceGroups=many(GROUP),
        admissionChecksStrategy=CHECKS,
    ),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"): of("clusterQueue", clusterQueue=TEXT),
    ("kueue.x-k8s.io/v1beta2", "AdmissionCheck"): of(
        "controllerName",
        controllerName=TEXT,
        parameters=of("apiGroup", "kind", "name", apiGroup=TEXT, kind=TEXT, name=TEXT),
    ),
    ("kueue.x-k8s.io/v1beta2", "MultiKueueConfig"): of("clusters", clusters=TEXTS),
    ("kueue.x-k8s.io/v1beta2", "MultiKueueCluster"): of(
        clusterSource=of(kubeConfig=of("location", "locationType", location=TEXT, locationType=TEXT))
    ),
}


def plural(kind: str) -> str:
    return f"{kind.lower()}s"


def definition(api_version: str, kind: str) -> Object:
    """Return a CustomResourceDefinition of one of these kinds."""
    group, version = api_version.split("/")
    cluster_wide = group == "kueue.x-k8s.io" and kind != "LocalQueue"
    schema = {"type": "object", "properties": {"spec": SPECS[api_version, kind]}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(kind)}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural(kind), "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "scope": "Cluster" if cluster_wide else "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
