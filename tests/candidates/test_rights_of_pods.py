"""What a source's pod may be in a target: as whom it runs, and how near to the node it comes, is the invitation's to
say.
"""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates.reasons import TargetReason
from tests.candidates.stage import Stage, pod
from tests.pods.test_security import GOOD, PLAIN
from tests.support.rows import each

STRICT: dict[str, Any] = {}


def offered(lends: dict[str, Any], spec: dict[str, Any]) -> Stage:
    """Offer a pod to a target with such an invitation."""
    stage = Stage("a")
    stage.lends = lends
    stage.home = {**stage.home, "pods": {"web": pod(spec=spec)}}
    return stage.ask()


def refused(stage: Stage) -> tuple[str, str]:
    """Return why the candidate is refused, and hold that no Pod was made."""
    status = stage.stores["a"]["candidates"][stage.only("a")].get("status", {})
    made = bool(stage.stores["a"]["pods"])
    assert made != (status.get("phase") == "Refused")
    return (status["reason"], status["message"]) if not made else ("", "")


def made(stage: Stage) -> dict[str, Any]:
    assert refused(stage) == ("", "")
    found: dict[str, Any] = stage.stores["a"]["pods"][stage.only("a")]["spec"]
    return found


LEVELS = {
    "restricted is the default": (STRICT, PLAIN, "allowPrivilegeEscalation"),
    "restricted, by name": ({"pod_security": "restricted"}, PLAIN, "allowPrivilegeEscalation"),
    "what restricted allows": (STRICT, GOOD, ""),
    "baseline allows more": ({"pod_security": "baseline"}, PLAIN, ""),
    "and not a privileged container": (
        {"pod_security": "baseline"},
        {"containers": [{"name": "c", "securityContext": {"privileged": True}}]},
        "spec.containers[c].securityContext.privileged",
    ),
    "nor a path of the node": (
        {"pod_security": "baseline"},
        {**PLAIN, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        "hostPath",
    ),
    "nor its network": ({"pod_security": "baseline"}, {**PLAIN, "hostNetwork": True}, "spec.hostNetwork"),
    "restricted has all of baseline": (STRICT, {**GOOD, "hostNetwork": True}, "spec.hostNetwork"),
    "privileged is anything": ({"pod_security": "privileged"}, {**PLAIN, "hostNetwork": True}, ""),
}


@each(("lends", "spec", "said"), LEVELS.values(), ids=LEVELS.keys())
def test_a_pod_has_to_keep_the_level_of_the_invitation(lends: dict[str, Any], spec: dict[str, Any], said: str) -> None:
    reason, message = refused(offered(lends, spec))
    assert (reason == TargetReason.POD_SECURITY) == bool(said)
    assert said in message


TOKEN = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
CERTIFICATE = {"name": "t", "projected": {"sources": [{"podCertificate": {"signerName": "s", "keyType": "ED25519"}}]}}
ACCOUNTS = {
    "default, where nothing is said": ([], GOOD, ""),
    "another": ([], {**GOOD, "serviceAccountName": "campus"}, 'does not lend ServiceAccount "campus"'),
    "another, by the older name": ([], {**GOOD, "serviceAccount": "campus"}, ""),  # a source's template leaves it out
    "one that is lent": (["runner"], {**GOOD, "serviceAccountName": "runner"}, ""),
    "one beside it": (["runner"], {**GOOD, "serviceAccountName": "campus"}, 'does not lend ServiceAccount "campus"'),
    "default beside one that is lent": (["runner"], GOOD, 'does not lend ServiceAccount "default"'),
    "a token of default": ([], {**GOOD, "volumes": [TOKEN]}, 'lends no token of ServiceAccount "default"'),
    "a certificate of default": ([], {**GOOD, "volumes": [CERTIFICATE]}, 'lends no token of ServiceAccount "default"'),
    "a token of one that is lent": (["runner"], {**GOOD, "serviceAccountName": "runner", "volumes": [TOKEN]}, ""),
}


@each(("lent", "spec", "said"), ACCOUNTS.values(), ids=ACCOUNTS.keys())
def test_a_pod_runs_as_nobody_who_is_not_lent(lent: list[str], spec: dict[str, Any], said: str) -> None:
    reason, message = refused(offered({"service_accounts": lent}, spec))
    assert (reason == TargetReason.SERVICE_ACCOUNT_NOT_ALLOWED) == bool(said)
    assert said in message


def test_a_token_is_mounted_only_of_an_account_that_is_lent() -> None:
    assert made(offered({}, {**GOOD, "automountServiceAccountToken": True}))["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in made(offered({"service_accounts": ["default"]}, GOOD))


CLASSES = {
    "any, where none is named": ([], "high", ""),
    "one that is named": (["high"], "high", ""),
    "one beside it": (["low"], "high", 'does not allow priority class "high"'),
    "none of Kubernetes' own": ([], "system-node-critical", 'does not allow priority class "system-node-critical"'),
    "but one that is named": (["system-node-critical"], "system-node-critical", ""),
}


@each(("named", "wanted", "said"), CLASSES.values(), ids=CLASSES.keys())
def test_a_pod_is_as_important_as_the_invitation_allows(named: list[str], wanted: str, said: str) -> None:
    stage = offered({"priority_classes": named}, {**GOOD, "priorityClassName": wanted})
    reason, message = refused(stage)
    assert (reason == TargetReason.PRIORITY_CLASS_NOT_ALLOWED) == bool(said)
    assert said in message


def test_the_source_pod_says_why() -> None:
    stage = offered(STRICT, {**PLAIN, "hostNetwork": True}).settle()
    assert 'CandidateSource "home" allows pods of the level restricted' in stage.said()
    assert "spec.hostNetwork" in stage.said()


def test_one_that_is_bound_is_let_be_and_one_that_is_not_is_refused_when_the_invitation_changes() -> None:
    bound, waiting = Stage("a").delegated("a"), Stage("a").ask()
    for stage in (bound, waiting):
        stage.lends = STRICT
        stage.settle()
    assert bound.stores["a"]["pods"]
    assert not waiting.stores["a"]["pods"]


def test_what_cannot_be_judged_is_refused() -> None:
    stage = offered(STRICT, {"containers": [{"name": "c", "securityContext": {"capabilities": {"add": "ALL"}}}]})
    reason, message = refused(stage)
    assert reason == TargetReason.INVALID_POD
    assert "capabilities.add" in message
