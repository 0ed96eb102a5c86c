"""docs/howto/candidates.md, "In ten commands": three clusters on real kube-apiservers, from nothing to a pod of one
that is bound in another, with the rights that deploy/ and `controlplane candidates invite` give and no others.

Runs where `KUBEBUILDER_ASSETS`, `CONTROLPLANE_TEST_CRDS` and `CONTROLPLANE_TEST_KUEUE` say where things are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.deploy.charts import HELM
from tests.real.fleet import until
from tests.real.node import Container
from tests.real.operator import WHY, Operator, Page, operator_of

pytestmark = pytest.mark.skipif(bool(WHY) or HELM is None, reason=WHY or "helm is not there")
SOURCE, TARGETS = "campus", ("east", "west")
PAGE = Page("howto/candidates.md", "In ten commands")


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator_of(tmp_path_factory.mktemp("invite"), (SOURCE, *TARGETS)) as found:
        for command in Page("howto/real-clusters.md", "2.").commands(to="kubectl"):
            found.types(command)
        found.environment["CONTROLPLANE_DATABASE_URL"] = found.database("controlplane_owner")
        found.types("controlplane db upgrade")
        url = found.environment["CONTROLPLANE_DATABASE_URL"] = found.database("controlplane_service")
        for context, namespace in ((SOURCE, "kueue-system"), *((one, "controlplane-system") for one in TARGETS)):
            if context != SOURCE:
                found.fleet.kubectl("create", "namespace", namespace, context=context)
            words = ("create", "secret", "generic", "controlplane-database", f"--from-literal=url={url}")
            found.fleet.kubectl("--namespace", namespace, *words, context=context)
        found.fleet.node("east", "small", "1")
        found.fleet.node("west", "large", "8")
        (pod,) = PAGE.blocks("yaml")
        (found.folder / "pod.yaml").write_text(pod)
        yield found


def test_ten_commands_lead_three_clusters_to_a_placed_pod(operator: Operator) -> None:
    commands = PAGE.commands()
    assert len(commands) == 10
    with ExitStack() as stack:
        for command in commands[:7]:
            operator.types(command)
        service = operator.container("kueue-system", "deployment", "controlplane", SOURCE)
        processes = [service]
        for name in TARGETS:
            scheduler = operator.container("controlplane-system", "deployment", "controlplane-scheduler", name)
            scheduler.environment["CONTROLPLANE_SCHEDULER_LOG"] = name  # they share the test's database
            processes.append(scheduler)
        for process in processes:
            stack.enter_context(process.running())
        for process in processes:
            until("it is ready", process.ready)
        operator.types(commands[7])
        until("the pod is bound in the west, which alone has room", lambda: placed(operator))
        assert json.loads(operator.types(commands[8]))["candidates.controlplane.dev/cluster"] == "west"
        assert "west" in operator.types(commands[9])
        bound = operator.fleet.get("pods", delegate(operator), namespace="physics", context="west")
        assert bound is not None
        assert bound["spec"]["nodeName"] == "large"
        again(operator, commands[3], service)


def placed(operator: Operator) -> bool:
    return bool(delegate(operator))


def delegate(operator: Operator) -> str:
    pod = operator.fleet.get("pods", "web", namespace="physics", context=SOURCE)
    found: str = ((pod or {})["metadata"].get("annotations") or {}).get("candidates.controlplane.dev/pod", "")
    return found


def again(operator: Operator, invite: str, service: Container) -> None:
    """Invited again, only the token is new, and the connection goes on; what somebody else made is left as it is."""
    rows = json.loads(operator.types(f"{invite} -o json"))
    assert {row["kind"]: row["result"] for row in rows if row["result"] != "unchanged"} == {"Secret": "configured"}
    until("the new token is used", lambda: "Connected" in service.run("clusters"))
    secret = ("--namespace", "kueue-system", "secret", "east")
    operator.fleet.kubectl("label", *secret, "app.kubernetes.io/managed-by-", context=SOURCE)
    before = operator.fleet.get("secret", "east", namespace="kueue-system", context=SOURCE)
    rows = json.loads(operator.types(f"{invite} -o json", status=1))
    assert [row["kind"] for row in rows if row["result"].startswith("left as it is")] == ["Secret"]
    assert operator.fleet.get("secret", "east", namespace="kueue-system", context=SOURCE) == before
