"""Generated clusters, small and nasty: few names and values, so that rules meet each other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from controlplane.kube.kinds import Json
from tests.scheduler.objects import HOST, ZONE

KEYS = (HOST, ZONE, "rack", "disk")
APPS = ("a", "b", "c")
NAMESPACES = ("default", "other")
HAS = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "example.com/gpu": "2"}


def _some(elements: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(elements, max_size=most)


def _without_none(found: dict[str, Any]) -> Json:
    return {key: value for key, value in found.items() if value is not None}


def _rarely(most: st.SearchStrategy[Any], few: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw from the second in one case of four: what refuses everything must not hide the rest."""
    return st.one_of(most, most, most, few)


labels = _rarely(
    st.fixed_dictionaries({"app": st.sampled_from(["a", "a", "b"])}),
    st.fixed_dictionaries({}, optional={"app": st.sampled_from(APPS), "tier": st.sampled_from("xy")}),
)
node_labels = st.fixed_dictionaries(
    {
        HOST: st.sampled_from(["h0", "h1", "h2", "h3"]),
        ZONE: st.sampled_from(["z1", "z2", "z2", ""]),
    },
    optional={
        "rack": st.sampled_from(["1", "2", "30", "x"]),
        "disk": st.sampled_from(["ssd", "hdd"]),
    },
)
taint = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["k", "l"]),
        "value": st.sampled_from(["", "v"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }
)
toleration = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "k", "l", "node.kubernetes.io/unschedulable"]),
        "operator": st.sampled_from(["", "Equal", "Exists", "Lt"]),
        "value": st.sampled_from(["", "v"]),
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    },
)
requirement = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from([*APPS, "x"]), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
)
selector = _rarely(
    st.just({"matchLabels": {"app": "a"}}),
    st.one_of(
        st.none(),
        st.just({}),
        st.fixed_dictionaries({"matchLabels": labels}),
        st.fixed_dictionaries({"matchExpressions": _some(requirement)}),
    ),
)
node_requirement = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["z1", "z2", "ssd", "1", "h0"]), max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {
            "key": st.just("rack"),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.lists(st.sampled_from(["1", "5", "y"]), min_size=1, max_size=1),
        }
    ),
)
name_field = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(["n0", "n1", "n9"]), min_size=1, max_size=1),
    }
)
node_term = st.fixed_dictionaries(
    {}, optional={"matchExpressions": _some(node_requirement), "matchFields": _some(name_field)}
)
node_affinity = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": _some(node_term)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": _some(
            st.fixed_dictionaries({"weight": st.integers(0, 100), "preference": node_term})
        ),
    },
)
pod_term = st.builds(
    _without_none,
    st.fixed_dictionaries(
        {
            "topologyKey": _rarely(st.sampled_from(KEYS[:2]), st.sampled_from(KEYS)),
            "labelSelector": selector,
            "namespaces": st.one_of(st.none(), st.lists(st.sampled_from(NAMESPACES), max_size=2)),
            "namespaceSelector": st.sampled_from([None, {}, {"matchLabels": {"team": "t"}}]),
        }
    ),
)
weighted = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": pod_term})
pod_affinity = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": _some(pod_term),
        "preferredDuringSchedulingIgnoredDuringExecution": _some(weighted),
    },
)
affinity = st.fixed_dictionaries(
    {}, optional={"nodeAffinity": node_affinity, "podAffinity": pod_affinity, "podAntiAffinity": pod_affinity}
)
spread = st.builds(
    _without_none,
    st.fixed_dictionaries(
        {
            "maxSkew": st.sampled_from([1, 1, 2, 3]),
            "topologyKey": _rarely(st.sampled_from(KEYS[:2]), st.sampled_from(KEYS)),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": selector,
            "minDomains": st.sampled_from([None, 1, 2, 4]),
            "nodeAffinityPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "matchLabelKeys": st.sampled_from([None, ["tier"], ["absent"]]),
        }
    ),
)
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "100m", "1", "3"]),
        "memory": st.sampled_from(["0", "1Gi", "1Gi", "3Gi"]),
        "ephemeral-storage": st.sampled_from(["1Gi"]),
        "example.com/gpu": st.sampled_from(["0", "1", "2"]),
    },
)
port = st.fixed_dictionaries(
    {"hostPort": st.sampled_from([80, 81])}, optional={"hostIP": st.sampled_from(["0.0.0.0", "10.0.0.1"])}
)


@st.composite
def pods(draw: st.DrawFn, name: str, placed: bool) -> Json:
    """Draw a pod; a placed one is on one of the nodes, or on one that is not there."""
    container = {
        "name": "c",
        "image": draw(st.sampled_from(["app", "big:1"])),
        "resources": {"requests": draw(amounts)},
        "ports": draw(_rarely(st.just([]), _some(port, 1))),
    }
    meta: Json = {
        "name": name,
        "namespace": draw(_rarely(st.just("default"), st.sampled_from(NAMESPACES))),
        "labels": draw(labels),
    }
    if placed and draw(st.integers(0, 7)) == 7:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Json = {
        "containers": [container],
        "affinity": draw(st.one_of(st.just({}), affinity)),
        "tolerations": draw(_some(toleration)),
        "priority": draw(st.integers(0, 2)) if placed else draw(st.integers(0, 3)),
    }
    if placed:
        spec["nodeName"] = draw(st.sampled_from(["n0", "n0", "n1", "n1", "n2", "n3", "gone"]))
    else:
        spec["topologySpreadConstraints"] = draw(_some(spread, 3))
        if draw(st.integers(0, 3)) == 3:
            spec["nodeSelector"] = draw(st.sampled_from([{}, {"disk": "ssd"}]))
    return {"metadata": meta, "spec": spec}


@st.composite
def scenarios(draw: st.DrawFn) -> Json:
    """Draw a line of `evaluate`: a pod, up to five nodes, up to eight pods on them, and what belongs to them."""
    nodes = []
    for at in range(draw(st.sampled_from([4, 3, 5, 1]))):
        room = draw(_rarely(st.just(HAS), amounts)) | {"pods": draw(st.sampled_from(["110", "110", "2", "110", "0"]))}
        images = [{"names": ["big:1"], "sizeBytes": 900_000_000}] if draw(st.booleans()) else []
        spec = {"taints": draw(_rarely(st.just([]), _some(taint))), "unschedulable": draw(st.integers(0, 7)) == 7}
        meta = {"name": f"n{at}", "labels": draw(node_labels)}
        nodes.append({"metadata": meta, "spec": spec, "status": {"allocatable": room, "images": images}})
    others = [draw(pods(f"p{at}", placed=True)) for at in range(draw(st.sampled_from([5, 3, 8, 0])))]
    services = [{"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "a"}}}]
    budgets = [
        {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": draw(st.integers(0, 1))},
        }
    ]
    return {
        "id": "s",
        "pod": draw(pods("incoming", placed=False)),
        "nodes": nodes,
        "pods": others,
        "namespaces": [{"metadata": {"name": "other", "labels": {"team": "t"}}}, {"metadata": {"name": "default"}}],
        "services": draw(st.sampled_from([[], services])),
        "podDisruptionBudgets": budgets,
    }
