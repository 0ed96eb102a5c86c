"""The manifests of an invitation: they are what deploy/candidates/target shows, and what the service reads."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.cli.candidates import _check_namespace, _put
from controlplane.cli.errors import CommandFailure
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.controllers.candidates import invitation
from controlplane.controllers.candidates.invitation import Invitation, is_ours, says_the_same, source_side, target_side
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, SECRETS, Json, Kind
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kinds.candidates import CANDIDATE_KINDS
from controlplane.simulation.world import ClusterSpec, World
from tests.deploy.manifests import ROOT, documents
from tests.support.rows import each

ONE = Invitation(source="campus", target="cloud", namespace="physics", tier=1)
AUTHORITY = b"-----BEGIN CERTIFICATE-----"


def by_kind(manifests: list[invitation.Manifest]) -> dict[str, Json]:
    return {body["kind"]: body for _, body in manifests}


def test_the_target_side_is_that_of_the_example() -> None:
    text = (ROOT / "deploy/candidates/target/example.yaml").read_text()
    example = {one["kind"]: one for one in documents(text)}
    made = by_kind(target_side(ONE))
    assert made.keys() == example.keys()
    for kind in ("RoleBinding", "ServiceAccount"):
        assert says_the_same(made[kind], example[kind]), kind
    spec = example["CandidateSource"]["spec"]
    assert made["CandidateSource"]["spec"] == {"cluster": spec["cluster"], "user": spec["user"]}


def test_the_source_side_holds_together() -> None:
    text = yaml.safe_dump(invitation.kubeconfig("https://10.0.0.7:6443", AUTHORITY, "the-token")).encode()
    made = by_kind(source_side(ONE, text))
    where = made["MultiKueueCluster"]["spec"]["clusterSource"]["kubeConfig"]
    assert (where["location"], made["CandidateTarget"]["spec"]) == (
        made["Secret"]["metadata"]["name"],
        {"cluster": made["MultiKueueCluster"]["metadata"]["name"], "tier": 1},
    )
    parsed = parse_kubeconfig(base64.b64decode(made["Secret"]["data"]["kubeconfig"]))
    assert (parsed.server, parsed.token) == ("https://10.0.0.7:6443", "the-token")
    assert "Secret" not in by_kind(source_side(ONE, None))
    assert all(is_ours(body) for body in made.values())


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ({"spec": {"cluster": "campus", "user": "u", "maxCandidates": 9}}, True),
        ({"spec": {"cluster": "campus"}}, False),
        ({"spec": {"cluster": "other", "user": "u"}}, False),
        ({}, False),
    ],
)
def test_what_somebody_added_does_not_count(found: Json, same: bool) -> None:
    assert says_the_same({"kind": "X", "metadata": {}, "spec": {"cluster": "campus", "user": "u"}}, found) is same


def test_the_manifests_can_be_printed_for_two_administrators() -> None:
    words = ["candidates", "invite", "--source", "campus", "--target", "cloud", "-n", "physics", "--print"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    printed = [one for one in yaml.safe_load_all(done.output) if one]
    assert [one["kind"] for one in printed] == [
        *(body["kind"] for _, body in target_side(ONE)),
        *(body["kind"] for _, body in source_side(ONE, None)),
    ]


@each(
    ("words", "said", "code"),
    [
        (["--source", "a", "--target", "a"], "the same context", 2),
        (["--source", "A_b", "--target", "c"], '"A_b" cannot be the name of a cluster', 2),
        (["--source", "a", "--target", "c", "--duration", "9"], '--duration "9" is no duration', 2),
        (["--source", "a", "--target", "c", "--duration", "-1h"], '--duration "-1h" is no duration', 2),
        (["--source", "a", "--target", "c", "--duration", "0s", "--print"], '--duration "0s" is no duration', 2),
        (["--source", "a", "--target", "c", "--kubeconfig", "/nowhere"], "there is no such file: /nowhere", 3),
    ],
)
def test_bad_input_is_said_in_one_sentence(words: list[str], said: str, code: int) -> None:
    done = CliRunner().invoke(cli, ["candidates", "invite", "-n", "physics", *words], standalone_mode=False)
    error = str(done.exception)
    assert said in error
    assert "\n" not in error
    assert getattr(done.exception, "code", None) == code


# --- the namespace of the pods
# ------------------------------------------------------------------------------------------


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Transport]:
    world = World(
        ClusterSpec(namespaces=("default", "physics"), kinds=(*DEFAULT_KINDS, *CANDIDATE_KINDS)), {}, folder=tmp_path
    )
    await world.start()
    config = yaml.safe_dump(world.management.server.kubeconfig()).encode()
    server = Transport("campus", parse_kubeconfig(config))
    try:
        yield server
    finally:
        await server.close()
        await world.stop()


async def test_a_namespace_that_the_source_has_is_taken(source: Transport) -> None:
    await _check_namespace(source, "campus", "physics")


@pytest.mark.parametrize(("name", "near"), [("phisics", "did you mean physics? "), ("xyzq", "")])
async def test_a_namespace_that_the_source_does_not_have_is_refused(source: Transport, name: str, near: str) -> None:
    with pytest.raises(CommandFailure) as refused:
        await _check_namespace(source, "campus", name)
    said = f"campus has no namespace {name}, and so no pods in it: {near}--create-namespace makes it"
    assert (str(refused.value), refused.value.code) == (said, 5)


MADE = ("Secret", "MultiKueueCluster", "CandidateTarget")
KUBECONFIG = yaml.safe_dump(invitation.kubeconfig("https://10.0.0.7:6443", AUTHORITY, "the-token")).encode()


async def put(source: Transport, text: bytes = KUBECONFIG) -> dict[str, str]:
    """Make the source's side of the invitation; return what became of each kind."""
    rows = await _put(source, "campus", source_side(ONE, text))
    assert rows[0][1:] == ("Namespace", "", "physics", "unchanged")
    return {kind: result for _, kind, _, _, result in rows[1:]}


async def test_invited_again_only_the_kubeconfig_is_new(source: Transport) -> None:
    assert await put(source) == dict.fromkeys(MADE, "created")
    renewed = yaml.safe_dump(invitation.kubeconfig("https://10.0.0.7:6443", AUTHORITY, "another")).encode()
    assert await put(source, renewed) == {**dict.fromkeys(MADE, "unchanged"), "Secret": "configured"}
    secret = await source.get(SECRETS, ONE.secrets, ONE.target)
    assert parse_kubeconfig(base64.b64decode(secret["data"]["kubeconfig"])).token == "another"


async def test_what_says_something_else_is_written_anew(source: Transport) -> None:
    await put(source)
    other = source_side(msgspec.structs.replace(ONE, tier=2), KUBECONFIG)
    rows = await _put(source, "campus", other)
    assert {row[1]: row[-1] for row in rows[1:]} == {
        **dict.fromkeys(MADE, "unchanged"),
        "Secret": "configured",
        "CandidateTarget": "configured",
    }
    assert (await source.get(CANDIDATE_TARGETS, ONE.namespace, ONE.target))["spec"]["tier"] == 2


@pytest.mark.parametrize("kind", [SECRETS, MULTIKUEUE_CLUSTERS, CANDIDATE_TARGETS], ids=lambda kind: str(kind.kind))
async def test_what_somebody_else_made_is_left_as_it_is(source: Transport, kind: Kind) -> None:
    others = by_kind(source_side(ONE, b"of somebody else"))[kind.kind]
    del others["metadata"]["labels"]
    if kind != SECRETS:
        others["spec"] = by_kind(source_side(msgspec.structs.replace(ONE, target="other", tier=7), None))[kind.kind][
            "spec"
        ]
    before = await source.create(kind, others["metadata"].get("namespace", ""), others)
    found = await put(source)
    assert found.pop(kind.kind) == "left as it is: it was not made by an invitation"
    assert set(found.values()) <= {"created"}
    assert await source.get(kind, others["metadata"].get("namespace", ""), ONE.target) == before


async def test_what_a_cluster_refuses_is_said_in_one_sentence(source: Transport) -> None:
    stranger = Transport("campus", replace(source.config, token="of somebody else"))
    try:
        with pytest.raises(CommandFailure) as refused:
            await put(stranger)
    finally:
        await stranger.close()
    assert str(refused.value).startswith("campus refuses Namespace physics: 401 Unauthorized")
    assert "\n" not in str(refused.value)
