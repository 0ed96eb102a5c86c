"""The dry run over written objects: namespaces, UIDs, Lists, templates, groups that exist, and objects that do not
fit.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from controlplane.controllers.podgroups.documents import Piece, find_rules, read_stream
from controlplane.controllers.podgroups.dry_run import Pretended, dry_run, selector
from controlplane.controllers.podgroups.rules import DEFAULT_DOCUMENT, Rules, RulesInvalid, read_text
from controlplane.kube.kinds import Json
from tests.podgroups.scenes import DEFAULT, manifest, pod_manifest, ref, rules
from tests.support.rows import each

RS, OTHER_RS, DEPLOYMENT, JOB = (
    ref("ReplicaSet", "web-1"),
    ref("ReplicaSet", "web-2"),
    ref("Deployment", "web"),
    ref("Job", "j"),
)
WIDGET, WORKFLOW = ref("Widget", "w"), ref("Workflow", "wf")
WEB = [manifest(RS, DEPLOYMENT), manifest(DEPLOYMENT)]


def template(cpu: str) -> Json:
    return {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}


def run(*objects: Json, known: Rules = DEFAULT, **more: Any) -> tuple[list[dict[str, Any]], list[str]]:
    lines, problems = dry_run([Piece(f"document {n}", one) for n, one in enumerate(objects, 1)], known, **more)
    return lines, [str(problem) for problem in problems]


def only(*objects: Json, **more: Any) -> dict[str, Any]:
    (line,), problems = run(*objects, **more)
    assert problems == []
    return line


def test_a_line_has_every_field() -> None:
    line = only(pod_manifest(RS, metadata={"annotations": {"scheduling.volcano.sh/queue-name": "q"}}), *WEB)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1"}
    assert line == {
        "pod": "p",
        "action": "create",
        "reason": "RuleMatched",
        "podGroupName": "podgroup-uid-web",
        "namespace": "team-a",
        "owner": deployment,
        "matched": True,
        "matchedOwner": deployment,
        "level": 0,
        "minMember": 1,
        "minResources": {"cpu": "500m"},
        "queue": "q",
        "walked": [replica_set, deployment],
        "reads": [replica_set | {"outcome": "Found"}],
        "annotationReads": [deployment | {"outcome": "Found"}],
        "warnings": [],
    }


def test_references_without_the_flag_are_ignored() -> None:
    line = only(manifest(ref("Pod", "p"), None, JOB, DEPLOYMENT, spec={"schedulerName": "volcano"}), manifest(JOB))
    assert (line["owner"]["kind"], line["reason"], line["walked"]) == ("Pod", "NoOwner", [])


def test_the_other_annotation_does_not_count_and_an_empty_one_is_none() -> None:
    notes = {"scheduling.volcano.sh/group-name": "other", "scheduling.k8s.io/group-name": ""}
    assert only(pod_manifest(notes=notes))["action"] == "create"
    line = only(pod_manifest(notes={"scheduling.k8s.io/group-name": "mine"}))
    assert (line["action"], line["reason"], line["podGroupName"]) == ("skip", "AlreadyGrouped", "mine")


@pytest.mark.parametrize("notes", [{"kubernetes.io/config.mirror": "x"}, {"kubernetes.io/config.source": "file"}])
def test_static_pods(notes: dict[str, str]) -> None:
    assert only(pod_manifest(notes=notes))["reason"] == "StaticPod"


def test_a_pod_without_a_scheduler_name_is_the_default_schedulers() -> None:
    line = only(pod_manifest(spec={"schedulerName": None}))
    assert (line["action"], line["reason"]) == ("skip", "OtherScheduler")
    assert only(pod_manifest(spec={"schedulerName": None}), schedulers=["default-scheduler"])["action"] == "create"


def test_owners_are_looked_for_in_the_pods_namespace() -> None:
    elsewhere = [manifest(RS, DEPLOYMENT, namespace="team-b"), manifest(DEPLOYMENT, namespace="team-b")]
    line = only(pod_manifest(RS), *elsewhere)
    assert line["owner"]["kind"] == "ReplicaSet"
    assert line["warnings"][0].startswith("OwnerNotFound: apps/v1 ReplicaSet web-1")


def test_objects_without_a_namespace() -> None:
    bare = [
        pod_manifest(RS, namespace=""),
        manifest(RS, DEPLOYMENT, namespace=""),
        manifest(DEPLOYMENT, namespace="default"),
    ]
    line = only(*bare)
    assert (line["namespace"], line["owner"]["kind"]) == ("default", "Deployment")
    above = [manifest(WIDGET, WORKFLOW, namespace=""), manifest(WORKFLOW, namespace="")]
    assert only(pod_manifest(WIDGET), *above)["owner"] == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "w",
        "uid": "uid-w",
    }


def test_another_uid_is_another_object() -> None:
    line = only(pod_manifest(RS), manifest(ref("ReplicaSet", "web-1", "newer"), DEPLOYMENT))
    assert (line["owner"]["kind"], line["reads"][0]["outcome"]) == ("ReplicaSet", "Replaced")
    assert line["warnings"][0].startswith("OwnerReplaced")


@each(
    ("field", "action", "outcome"),
    [
        ("forbidden", "create", "Forbidden"),
        ("not_served", "create", "NotServed"),
        ("unavailable", "retry", "Unavailable"),
    ],
)
@each("spelled", ["ReplicaSet.apps", "replicasets.apps", "replicaset.apps/web-1"])
def test_pretended_answers(field: str, action: str, outcome: str, spelled: str) -> None:
    line = only(pod_manifest(RS), *WEB, pretended=Pretended(**{field: (selector(spelled),)}))
    assert (line["action"], line["reads"][0]["outcome"]) == (action, outcome)
    if action == "retry":
        assert (line["reason"], line["podGroupName"], line["owner"]) == ("OwnerUnavailable", None, None)


@pytest.mark.parametrize("spelled", ["ReplicaSet", "Deployment.apps/other", "replica.apps"])
def test_pretended_answers_of_others_do_not_count(spelled: str) -> None:
    assert only(pod_manifest(RS), *WEB, pretended=Pretended(forbidden=(selector(spelled),)))["warnings"] == []


@pytest.mark.parametrize("spelled", ["", ".apps", "a/b/c", "Deployment.apps/"])
def test_what_is_no_selector(spelled: str) -> None:
    with pytest.raises(ValueError, match="names no kind"):
        selector(spelled)


def test_min_resources_follow_the_newest_replica_set() -> None:
    notes = {"scheduling.volcano.sh/group-min-member": "3"}
    old = manifest(RS, DEPLOYMENT, spec=template("1"), metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    new = manifest(OTHER_RS, DEPLOYMENT, spec=template("2"), metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    line = only(pod_manifest(RS, cpu="1"), new, old, manifest(DEPLOYMENT, notes=notes, spec=template("7")))
    assert line["minResources"] == {"cpu": "6"}
    back = manifest(RS, DEPLOYMENT, spec=template("1"), notes={"deployment.kubernetes.io/revision": "3"})
    assert only(pod_manifest(RS, cpu="9"), new, back, manifest(DEPLOYMENT, notes=notes))["minResources"] == {"cpu": "3"}


def test_two_pods_of_two_replica_sets_share_a_group() -> None:
    lines, _ = run(pod_manifest(RS, "p1"), pod_manifest(OTHER_RS, "p2"), *WEB, manifest(OTHER_RS, DEPLOYMENT))
    assert {line["podGroupName"] for line in lines} == {"podgroup-uid-web"}


@pytest.mark.parametrize(("owner", "action"), [(DEPLOYMENT, "create"), (JOB, "retry"), (None, "retry")])
def test_a_group_that_is_there_is_ours_by_its_owners_uid(owner: Any, action: str) -> None:
    group = {
        **manifest(ref("Widget", "podgroup-uid-web", "g"), owner),
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
    }
    line = only(pod_manifest(RS), *WEB, group)
    assert line["action"] == action
    if action == "retry":
        assert line["reason"] == "GroupNameTaken"


@pytest.mark.parametrize("owners", ["x", [5], [{"controller": True}], [{"controller": "true"}]])
def test_a_group_whose_owner_cannot_be_told_is_somebody_elses(owners: Any) -> None:
    group = manifest(ref("Widget", "podgroup-uid-web", "g"), metadata={"ownerReferences": owners})
    group |= {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    lines, problems = run(pod_manifest(RS), *WEB, group)
    assert (lines[0]["action"], lines[0]["reason"]) == ("retry", "GroupNameTaken")
    assert lines[0]["warnings"][0].startswith(
        "GroupNameTaken: PodGroup podgroup-uid-web belongs to nobody that can be told"
    )
    assert len(problems) == 1


def test_a_queue_that_cannot_be_one() -> None:
    line = only(pod_manifest(notes={"scheduling.volcano.sh/queue-name": "Not A Queue"}))
    assert line["queue"] is None
    assert line["warnings"][0].startswith("QueueInvalid")


BAD: list[tuple[Json, str]] = [
    ({"kind": "Pod"}, "apiVersion: is missing"),
    ({"apiVersion": "v1", "kind": "Pod"}, "metadata: is missing"),
    (pod_manifest(metadata={"uid": ""}), "metadata.uid: is missing"),
    (pod_manifest(metadata={"uid": 7}), "metadata.uid: is 7, a number"),
    (pod_manifest(metadata={"name": ""}), "metadata.name: is missing"),
    (pod_manifest(metadata={"ownerReferences": {}}), "metadata.ownerReferences: is an object"),
    (pod_manifest(metadata={"ownerReferences": ["x"]}), "metadata.ownerReferences[0]: is "),
    (
        pod_manifest(metadata={"ownerReferences": [{"controller": True}]}),
        "metadata.ownerReferences[0].apiVersion: is missing",
    ),
    (
        pod_manifest(metadata={"ownerReferences": [{"controller": "true"}]}),
        "metadata.ownerReferences[0].controller: is ",
    ),
    (
        pod_manifest(metadata={"ownerReferences": [{"controller": True}, {"controller": True}]}),
        "metadata.ownerReferences[1].controller: is true for a second reference",
    ),
    (pod_manifest(metadata={"annotations": {"scheduling.k8s.io/group-name": 5}}), "metadata.annotations[scheduling"),
    (pod_manifest(spec={"schedulerName": 5}), "spec.schedulerName: is 5"),
    (manifest(ref("Pod", "p")) | {"spec": "x"}, 'spec: is "x"'),
]


@each(("bad", "told"), BAD, ids=[told for _, told in BAD])
def test_objects_that_do_not_fit_are_named_and_the_rest_goes_on(bad: Json, told: str) -> None:
    lines, problems = run(bad, pod_manifest(RS, "good"), *WEB)
    assert [line["pod"] for line in lines] == ["good"]
    (problem,) = problems
    assert problem.startswith("document 1")
    assert told in problem


@pytest.mark.parametrize("spec", [{"containers": 5}, {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}])
def test_a_pod_whose_requests_cannot_be_read_has_no_line(spec: Json) -> None:
    """As in the service: it is refused as a whole (`MemberRefused`), and no group is made for it."""
    lines, problems = run(pod_manifest(RS, spec=spec), pod_manifest(RS, "good"), *WEB)
    assert [line["pod"] for line in lines] == ["good"]
    assert len(problems) == 1


@each(
    ("there", "oddity"),
    [([], "OwnerNotFound"), ([manifest(ref("ReplicaSet", "web-1", "newer"))], "OwnerReplaced"), ([manifest(RS)], "")],
)
@each("known", [DEFAULT, Rules()])
def test_no_group_is_made_where_its_owner_is_gone(known: Rules, there: list[Json], oddity: str) -> None:
    """As in the service: the garbage collector would take the group as soon as it is there."""
    (line,), _ = run(pod_manifest(RS), *there, known=known)
    assert (line["action"], line["reason"]) == (("retry", "OwnerGone") if oddity else ("create", "FirstOwner"))
    assert (line["podGroupName"], line["owner"]["name"]) == ("podgroup-uid-web-1", "web-1")
    said = [one for one in line["warnings"] if "no PodGroup is made" in one]
    assert [one.partition(":")[0] for one in said] == ([oddity] if oddity else [])


def test_a_pod_whose_owner_is_gone_joins_the_group_that_is_there() -> None:
    group = manifest(ref("Widget", "podgroup-uid-web-1", "g"), RS)
    line = only(pod_manifest(RS), group | {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"})
    assert (line["action"], line["reason"]) == ("create", "FirstOwner")


def test_an_owner_that_does_not_fit_is_told_and_ends_the_walk() -> None:
    lines, problems = run(pod_manifest(RS), manifest(RS, metadata={"ownerReferences": "x"}))
    assert lines[0]["warnings"][0].startswith("OwnerUnreadable: apps/v1 ReplicaSet web-1")
    assert len(problems) == 1


def test_objects_without_a_uid_matter_only_where_they_own_something() -> None:
    bare = [{**manifest(one), "metadata": {"name": one.name, "namespace": "team-a"}} for one in (RS, DEPLOYMENT)]
    lines, problems = run(pod_manifest(), *bare)
    assert (lines[0]["action"], problems) == ("create", [])
    lines, problems = run(pod_manifest(RS, "p1"), pod_manifest(RS, "p2"), *bare)
    assert [line["reads"][0]["outcome"] for line in lines] == ["Misfit", "Misfit"]
    (problem,) = problems
    assert "document 3 (ReplicaSet web-1): metadata.uid: is missing" in problem


def test_documents_that_contain_themselves() -> None:
    pieces, problems = read_stream("f", "&a [*a]\n---\nkind: X\n")
    assert [one.object for one in pieces] == [{"kind": "X"}]
    assert [str(problem) for problem in problems] == ["f, document 1: contains itself; write it out"]


def test_the_same_object_twice_is_one_and_another_of_its_name_is_refused() -> None:
    lines, problems = run(pod_manifest(RS), pod_manifest(RS), pod_manifest(JOB), *WEB)
    assert len(lines) == 1
    assert problems == [
        "document 3 (Pod p): metadata.name: is that of another object, at document 1; give every object once"
    ]


def test_streams_lists_and_json() -> None:
    listed = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}
    text = (
        f"---\n# nothing\n---\n{yaml.safe_dump(listed)}---\nkind: [\n---\nhello\n---\nkind: List\nitems: "
        "5\n---\nkind: X\n"
    )
    pieces, problems = read_stream("f.yaml", text)
    assert [(one.place, one.object.get("kind")) for one in pieces] == [
        ("f.yaml, document 1, items[0]", "Pod"),
        ("f.yaml, document 5", "X"),
    ]
    assert [problem.place for problem in problems] == [
        "f.yaml, document 2",
        "f.yaml, document 3",
        "f.yaml, document 4, items",
    ]
    assert [one.object for one in read_stream("-", '{"kind": "List", "items": [{"a": 1}]}')[0]] == [{"a": 1}]


def test_json_one_after_the_other() -> None:
    text = "".join(json.dumps(one, indent=1) + "\n" for one in (pod_manifest(RS), *WEB))
    pieces, problems = read_stream("o.json", text)
    assert [piece.place for piece in pieces] == [f"o.json, document {number}" for number in (1, 2, 3)]
    assert problems == []
    _, problems = read_stream("o.json", text + "{")
    assert "is not YAML" in str(problems[0])


def test_times_in_yaml_are_texts() -> None:
    pieces, _ = read_stream("o.yaml", "metadata: {annotations: {on: 2026-01-01, at: 2026-01-01T00:00:00Z}}")
    assert pieces[0].object["metadata"]["annotations"] == {"true": "2026-01-01", "at": "2026-01-01T00:00:00Z"}


def test_text_that_is_nested_without_end_is_a_problem_of_its_own() -> None:
    pieces, problems = read_stream("f", "[" * 200_000 + "\n---\nkind: X\n")
    assert [one.object for one in pieces] == [{"kind": "X"}]
    assert len(problems) == 1


CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "volcano-controller-configmap"},
    "data": {"volcano-controller.conf": DEFAULT_DOCUMENT},
}
NAMED_OTHERWISE = CONFIG_MAP | {"metadata": {"name": "x"}, "data": {}}


@pytest.mark.parametrize(
    "text",
    [
        DEFAULT_DOCUMENT,
        yaml.safe_dump(CONFIG_MAP),
        "---\n" + DEFAULT_DOCUMENT,
        yaml.safe_dump_all([NAMED_OTHERWISE, CONFIG_MAP, {"kind": "Namespace"}]),
        yaml.safe_dump({"kind": "List", "items": [CONFIG_MAP]}),
    ],
)
def test_rules_are_found_bare_and_in_the_config_map(text: str) -> None:
    assert find_rules(text) == read_text(DEFAULT_DOCUMENT)


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "a: [", yaml.safe_dump_all([CONFIG_MAP, CONFIG_MAP])])
def test_files_in_which_no_rules_are_found(text: str) -> None:
    with pytest.raises(RulesInvalid):
        find_rules(text)


def test_a_static_pods_owner_does_not_matter() -> None:
    assert only(pod_manifest(ref("Node", "n")), known=rules(("Node", 0)))["reason"] == "StaticPod"
