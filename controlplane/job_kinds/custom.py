"""Kinds of other frameworks, that the settings name as Kueue's configuration does: `Kind.version.group`
(kubernetes-sigs/kueue pkg/controller/admissionchecks/multikueue/externalframeworks, ff69552e). Their objects have
`spec.managedBy`; the copy is made as it is without that, the status is copied whole and always."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from controlplane.job_kinds.base import JobKind, PodSet
from controlplane.kube.kinds import Json, Kind

FRAMEWORK = r"([A-Z][A-Za-z0-9]*)\.(v[0-9][a-z0-9]*)\.([a-z0-9][-a-z0-9.]*\.[a-z0-9]+)"
"""What `Kind.version.group` is like."""


def is_framework(text: str) -> bool:
    """Return whether a text is like `Kind.version.group`."""
    return re.fullmatch(FRAMEWORK, text) is not None


def parse(framework: str) -> Kind:
    """Return the kind that `Kind.version.group` names; `ValueError` says what it has to be like.

    Its plural is guessed by the rules of English, as most definitions have it. A kind with another one is not found on
    any cluster, which the connection says."""
    found = re.fullmatch(FRAMEWORK, framework)
    if found is None:
        raise ValueError(f'must be Kind.version.group, such as Render.v1.example.com, not "{framework}"')
    kind, version, group = found.groups()
    plural = f"{kind.lower()}s"
    if kind.endswith(("s", "x", "ch", "sh")):
        plural = f"{kind.lower()}es"
    elif kind.endswith("y"):
        plural = f"{kind.lower()[:-1]}ies"
    return Kind(group, version, kind, plural)


class CustomJob(JobKind):
    """A kind that is known by its name alone."""

    external = True

    def __init__(self, framework: str) -> None:
        self.integration = framework
        self.kind = parse(framework)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return none: only its own framework knows them."""
        return []

    def clone_spec(self, template: Json) -> Json:
        """Return the spec without `managedBy`; its framework sees to it that it waits."""
        spec: Json = copy.deepcopy(template["spec"])
        spec.pop("managedBy", None)
        return spec

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it has a status, which is all that can be told."""
        return bool(status) and self.outcome(status) is None

    def drained(self, status: Json) -> Json:
        """Return no status, unless it is a final one."""
        return {} if self.active(status) else dict(status)

    def tells_activity(self) -> bool:
        """No."""
        return False
