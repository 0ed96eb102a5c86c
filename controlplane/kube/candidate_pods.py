"""How a scheduler knows the Pods that it makes for Candidates among all that name one of its profiles.

In: a Pod's metadata as the API server shows it. Out: yes or no. Such a Pod has the name of its Candidate, which its
label says and its owner is. A Pod with a copy of those labels, under another name, is nobody's but its user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The label of a candidate's Pod: its Candidate.
CANDIDATE = "candidates.controlplane.dev/candidate"
#: The annotation of a candidate's Pod: the cluster that its source pod is in. Gangs of two sources are two gangs.
SOURCE = "candidates.controlplane.dev/source"
#: Another one, where its Candidate says it: that cluster's UID, by which two that have one name are told apart.
SOURCE_UID = "candidates.controlplane.dev/source-uid"
#: Another one: "false" if its source has another cluster's autoscaler add nodes for it.
SCALE_UP = "candidates.controlplane.dev/scale-up"
UNMARKED = "?"  # the source of a candidate's Pod that does not name it; no cluster is called so
_OWNER = "candidates.controlplane.dev/"


def is_candidates(metadata: Mapping[str, Any]) -> bool:
    """Whether a Pod is a Candidate's, also one whose label somebody has taken off: it is never placed as others are."""
    labels, owners = metadata.get("labels"), metadata.get("ownerReferences")
    if isinstance(labels, dict) and CANDIDATE in labels and labels[CANDIDATE] == metadata.get("name"):
        return True
    listed = owners if isinstance(owners, list) else []
    return any(isinstance(one, dict) and one.get("controller") is True and _is_candidate(one) for one in listed)


def _is_candidate(owner: Mapping[str, Any]) -> bool:
    return owner.get("kind") == "Candidate" and str(owner.get("apiVersion", "")).startswith(_OWNER)
