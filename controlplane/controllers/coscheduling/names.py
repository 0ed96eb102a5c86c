"""Makes the names of placeholders and claims as Tekton does (tektoncd/pipeline
pkg/reconciler/pipelinerun/affinity_assistant.go and pkg/reconciler/volumeclaim/pvchandler.go, 3ee1745ae).

In: names and UIDs. Out: names. They have to be Tekton's to the letter: tasks that Tekton creates look for exactly
these. Two of them can coincide for different runs (nothing stands between the two hashed texts), so whoever adopts or
deletes compares owner UIDs as well."""

from __future__ import annotations

import hashlib
import re

COMPONENT = "affinity-assistant"
LONGEST_VOLUME = 63
LONGEST_LABEL_VALUE = 63
LONGEST_CLAIM = 253
_DIGITS = 10
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def placeholder_name(workspace: str, run: str) -> str:
    """Return the name of a placeholder StatefulSet; `workspace` is empty where one placeholder serves the whole run."""
    return f"{COMPONENT}-{_hash(workspace + run)}"


def pod_name(placeholder: str) -> str:
    """Return the name of a placeholder's only pod."""
    return f"{placeholder}-0"


def claim_name(base: str, workspace: str, uid: str) -> str:
    """Return the name of a template's claim in the modes `workspaces` and `disabled`. `uid` is the run's where it
    runs.
    """
    return f"{base or 'pvc'}-{_hash(workspace + uid)}"


def template_name(base: str, workspace: str, uid: str) -> str:
    """Return the name of a claim template in a placeholder that serves the whole run: a volume's, so at most 63
    characters.
    """
    name = claim_name(base, workspace, uid)
    if len(name) <= LONGEST_VOLUME:
        return name
    return f"{name[: LONGEST_VOLUME - _DIGITS - 1]}-{_hash(name)}"


def made_claim_name(base: str, workspace: str, uid: str, placeholder: str) -> str:
    """Return the name of the claim that the StatefulSet controller makes of such a template."""
    return f"{template_name(base, workspace, uid)}-{pod_name(placeholder)}"


def is_dns_label(text: str) -> bool:
    """Whether a text is a DNS label: what a pod's volume may be called."""
    return len(text) <= LONGEST_VOLUME and _DNS_LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Whether a text is a DNS subdomain: what a claim may be called."""
    return len(text) <= LONGEST_CLAIM and all(_DNS_LABEL.fullmatch(part) is not None for part in text.split("."))


def is_label_value(text: str) -> bool:
    """Whether a text may be the value of a label."""
    return len(text) <= LONGEST_LABEL_VALUE and _LABEL_VALUE.fullmatch(text) is not None
