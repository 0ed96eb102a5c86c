"""ConfigMaps and Secrets are followed to the winner and removed with it; what is not ours is never touched."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.objects import ALLOWED, SOURCE_LABEL
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.references.decide import (
    Copy,
    CopyRemoval,
    KnownCopy,
    NamedObject,
    copy_request,
    follow,
    known,
    references,
    removal_request,
)
from controlplane.controllers.candidates.references.needs import needed, unfit
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import Json, Kind
from controlplane.runtime.controller import ObjectChange
from controlplane.simulation.apiserver.patches import patched

SPEC: dict[str, Any] = {
    "volumes": [
        {"name": "a", "configMap": {"name": "files"}},
        {"name": "b", "secret": {"secretName": "keys", "optional": True}},
        {"name": "c", "projected": {"sources": [{"secret": {"name": "ca"}}, {"configMap": {"name": "files"}}]}},
        {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
        {"name": "e", "emptyDir": {}},
    ],
    "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "first"}}]}],
    "containers": [
        {
            "name": "c",
            "env": [
                {"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
                {"name": "V", "value": "v"},
            ],
            "envFrom": [{"secretRef": {"name": "env", "optional": True}}],
        }
    ],
    "imagePullSecrets": [{"name": "pull"}],
}


def here(name: str, version: str = "1", kind: str = "Secret", type_: str = "Opaque") -> KnownCopy:
    return KnownCopy(kind, name, f"u-{name}", version, type=type_)


def there(name: str, mark: str = "home", followed: str = "1", kind: str = "Secret") -> KnownCopy:
    return KnownCopy(kind, name, f"t-{name}", "7", mark, followed)


def test_every_place_that_names_one() -> None:
    assert references(SPEC) == [
        NamedObject("ConfigMap", "files"),
        NamedObject("ConfigMap", "first"),
        NamedObject("Secret", "ca"),
        NamedObject("Secret", "csi"),
        NamedObject("Secret", "env", True),
        NamedObject("Secret", "keys"),  # optional in one place, needed in another
        NamedObject("Secret", "pull", True),
    ]
    assert references({"volumes": "nonsense", "containers": [None, {"env": [{"valueFrom": None}]}]}) == []


def test_what_is_new_changed_unneeded_and_in_the_way() -> None:
    needed = [NamedObject("Secret", name) for name in ("new", "changed", "same", "foreign", "missing", "token")]
    sources = [
        here("new"),
        here("changed", "2"),
        here("same"),
        here("foreign"),
        here("token", type_="kubernetes.io/service-account-token"),
    ]
    present = [
        there("changed"),
        there("same"),
        there("foreign", mark=""),
        there("old"),
        there("other", mark="elsewhere"),
    ]
    found = follow(needed, sources, present, "home", in_view=True)
    assert found.copies == (Copy("Secret", "changed", "2", "t-changed", "7"), Copy("Secret", "new", "1"))
    assert found.removals == (CopyRemoval("Secret", "old", "t-old", "7"),)
    assert [(o.name, o.why.split(":")[0].split(",")[0]) for o in found.obstacles] == [
        ("foreign", "one of that name is in the target and is not ours"),
        ("missing", "it does not exist in the source"),
        ("token", "a Secret of type kubernetes.io/service-account-token means nothing in another cluster"),
    ]


def test_nothing_is_removed_while_the_source_is_not_in_view() -> None:
    assert follow([], [], [there("old")], "home", in_view=False).removals == ()


names = st.sampled_from(["a", "b", "c", "d"])
kinds = st.sampled_from(["Secret", "ConfigMap"])
marks = st.sampled_from(["home", "", "elsewhere"])


@given(
    st.lists(st.builds(NamedObject, kinds, names, st.booleans())),
    st.lists(st.builds(lambda k, n, v: here(n, v, k), kinds, names, st.sampled_from("12"))),
    st.lists(st.builds(lambda k, n, m, f: there(n, m, f, k), kinds, names, marks, st.sampled_from("12"))),
    st.booleans(),
)
def test_what_is_not_ours_is_never_touched(
    needed: list[NamedObject], sources: list[KnownCopy], present: list[KnownCopy], in_view: bool
) -> None:
    found = follow(needed, sources, present, "home", in_view=in_view)
    last = {(one.kind, one.name): one for one in present}
    wanted = {(one.kind, one.name) for one in needed}
    for change in (*found.copies, *found.removals):
        before = last.get((change.kind, change.name))
        assert before is None or before.mark == "home"
    assert all((one.kind, one.name) in wanted for one in found.copies)
    assert all(last[one.kind, one.name].uid == one.uid for one in found.removals)
    # Done once, nothing is left to do.
    after = {key: one for key, one in last.items() if key not in {(r.kind, r.name) for r in found.removals}}
    after |= {(c.kind, c.name): there(c.name, "home", c.version, c.kind) for c in found.copies}
    again = follow(needed, sources, list(after.values()), "home", in_view=in_view)
    assert (again.copies, again.removals) == ((), ())


def test_a_copy_carries_the_data_and_our_mark_and_what_it_was_made_of() -> None:
    source = {
        "metadata": {
            "name": "keys",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {"app": "x"},
            "annotations": {"n": "o"},
        },
        "type": "Opaque",
        "data": {"k": "dg=="},
    }
    request = copy_request(Copy("Secret", "keys", "5"), "team", source, "home")
    assert (request.verb, str(request.ref)) == ("create", "Secret team/keys")
    made = {
        **request.body,
        "metadata": {**request.body["metadata"], "name": "keys", "uid": "t", "resourceVersion": "9"},
    }
    assert known("Secret", made) == KnownCopy("Secret", "keys", "t", "9", "home", "5", "Opaque")
    assert made["data"] == {"k": "dg=="}
    assert request.owner_label == ("candidates.controlplane.dev/source", "home")
    removal = removal_request(CopyRemoval("Secret", "keys", "t", "9"), "team", "home")
    assert (removal.verb, removal.uid, removal.resource_version) == ("delete", "t", "9")


def test_a_key_that_the_source_has_no_more_goes_from_the_copy_too() -> None:
    """A password that was taken out of a Secret would stay in every target."""
    source = {"metadata": {"resourceVersion": "6"}, "type": "Opaque", "data": {"k": "dg=="}}
    there: Json = {"data": {"k": "b2xk", "old": "eA=="}, "binaryData": {"b": "eA=="}}
    for kind, before in itertools.product(("Secret", "ConfigMap"), (there, {})):
        request = copy_request(Copy(kind, "keys", "6", "t", "9"), "team", source, "home")
        renewed = patched(before, request.body, request.content_type, list_keys={}, builtin=True)
        assert (renewed["data"], renewed.get("binaryData")) == ({"k": "dg=="}, None)
        assert (renewed["metadata"]["name"], renewed["metadata"]["namespace"]) == ("keys", "team")


def test_a_selector_that_a_service_did_not_have_comes_to_its_copy() -> None:
    source = {"metadata": {"resourceVersion": "6"}, "spec": {"selector": {"app": "db"}, "ports": [{"port": 80}]}}
    before: Json
    for before in ({"ports": [{"port": 80}]}, {"selector": {"app": "db", "old": "x"}, "clusterIP": "10.0.0.1"}):
        request = copy_request(Copy("Service", "db", "6", "t", "9"), "team", source, "home")
        renewed = patched({"spec": before}, request.body, request.content_type, list_keys={}, builtin=True)
        assert renewed["spec"] == {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"app": "db"}}


def test_a_config_map_that_another_controller_watches_on_a_target_is_no_copy() -> None:
    placing = SourceController(
        SourcePolicy(cluster="home", scheduler_name="s", namespaces=frozenset({"a"})), "test", []
    )
    copies, kind = ReferenceController(placing), Kind("", "v1", "ConfigMap", "configmaps")

    def shown(**labels: str) -> ObjectChange:
        metadata = {"namespace": "tekton-pipelines", "name": "feature-flags", "uid": "u", "labels": labels}
        return ObjectChange("worker", "i", kind, {"metadata": metadata}, "7", gone=False)

    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert copies.observe(shown(), now) is None
    assert copies.observe(shown(**{SOURCE_LABEL: "home"}), now) is not None


def test_claims_and_services_that_another_controller_watches_are_nobodys() -> None:
    """The controller of PipelineRuns sees all claims of the management cluster, and is hosted beside."""
    placing = SourceController(
        SourcePolicy(cluster="home", scheduler_name="s", namespaces=frozenset({"a"})), "test", []
    )
    copies, now = ReferenceController(placing), datetime(2026, 1, 1, tzinfo=UTC)
    for kind in ALLOWED.values():
        obj = {"metadata": {"namespace": "a", "name": "x", "uid": "u"}}
        for cluster in (MANAGEMENT, "worker"):
            for gone in (False, True):
                assert copies.observe(ObjectChange(cluster, "i", kind, obj, "7", gone=gone), now) is None


def test_the_end_of_a_copy_is_recorded_though_its_beginning_is_on_its_way_to_the_log() -> None:
    placing = SourceController(
        SourcePolicy(cluster="home", scheduler_name="s", namespaces=frozenset({"a"})), "test", []
    )
    copies, now = ReferenceController(placing), datetime(2026, 1, 1, tzinfo=UTC)
    for kind in ALLOWED.values():
        obj = {"metadata": {"namespace": "a", "name": "x", "uid": "u", "labels": {SOURCE_LABEL: "home"}}}
        seen = [copies.observe(ObjectChange("worker", "i", kind, obj, "7", gone=gone), now) for gone in (False, True)]
        assert [type(new.event).__name__ if new is not None else None for new in seen] == ["CopyObserved", "CopyGone"]


def test_what_a_pod_needs_beside() -> None:
    spec = {
        "serviceAccountName": "builder",
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "emptyDir": {}}, None],
    }
    assert needed(spec, ["db"]) == [
        ("PersistentVolumeClaim", "data"),
        ("Service", "db"),
        ("ServiceAccount", "builder"),
    ]
    for name in ("../secrets/db", "a,metadata.name!=b", "x" * 254, "A"):
        assert needed({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]}, []) == []
    assert needed({"serviceAccountName": "default", "volumes": "nonsense"}, []) == []


def test_a_claim_is_never_removed_and_only_what_may_be_changed_of_it_is_renewed() -> None:
    kept = there("data", kind="PersistentVolumeClaim")
    assert follow([], [], [kept], "home", in_view=True).removals == ()
    source = {
        "metadata": {"resourceVersion": "2"},
        "spec": {"volumeName": "v", "accessModes": ["a"], "resources": {"r": 1}},
    }
    renewed = copy_request(Copy("PersistentVolumeClaim", "data", "2", "u", "7"), "a", source, "home")
    assert renewed.body["spec"] == {"resources": {"r": 1}}
    made = copy_request(Copy("PersistentVolumeClaim", "data", "2"), "a", source, "home")
    assert made.body["spec"] == {"accessModes": ["a"], "resources": {"r": 1}}


def test_what_is_made_of_something_else_is_named() -> None:
    claim = {"spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}}
    assert "spec.dataSource" in unfit("PersistentVolumeClaim", claim)
    assert unfit("Service", {"spec": {"type": "ClusterIP"}}) == unfit("ConfigMap", {}) == ""
