"""Says of a path of an API server that it does not know: which kind is not installed there, and what installs it.

In: the path of a request. Out: a sentence, "" for a path that is no kind's. Pure. A kube-apiserver answers such a path
with the text `404 page not found` and no Status (k8s.io/apiserver, pkg/server/mux)."""

from __future__ import annotations

import re

from controlplane.kube.kueue_names import KUEUE_GROUP

UNKNOWN_PATH = ("404 page not found", "the server could not find the requested resource")
"""What an API server says of a path that it does not know: the text of its mux, and the message of a Status of
client-go."""
_PATH = re.compile(r"^/apis/(?P<group>[^/]+)/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/?]+)")
_OURS = "candidates.controlplane.dev"
_DEVICES = "resource.k8s.io"
_KUBERNETES = re.compile(r"(?!metrics\.)[a-z]+(\.apiserver|\.authorization)?\.k8s\.io")
"""Groups with a dot that kube-apiserver serves itself (kubernetes/kubernetes pkg/controlplane/instance.go, v1.36):
those of projects beside it have another word before. One without a dot cannot be a CustomResourceDefinition's."""


def not_installed(path: str) -> str:
    """Return that the kind of a path is not installed, and what to do; "" if the path names none."""
    found = _PATH.match(path)
    if found is None:
        return ""
    name = f"{found['plural']}.{found['group']}"
    if found["group"] == _DEVICES:
        return f"{name} with version {found['version']} is not served there: Kubernetes has it from 1.34 on"
    if "." not in found["group"] or _KUBERNETES.fullmatch(found["group"]):
        why = "the API server is of another version of Kubernetes, has it off (--runtime-config), or is not a whole one"
        return f"{name} with version {found['version']} is Kubernetes' own, and not served there: {why}"
    what = f"CustomResourceDefinition {name} with version {found['version']} is not installed there"
    if found["group"] == _OURS:
        return f"{what}: kubectl apply -k deploy/crds"
    if found["group"] == KUEUE_GROUP:
        return f"{what}: install a Kueue that serves {found['version']}"
    return f"{what}: install it, or leave the kind out of the settings"
