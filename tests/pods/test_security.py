"""The controls of Kubernetes' Pod Security Standards, one row each for what is allowed and what is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import Json
from controlplane.kube.pod_security import forbidden_by_baseline, forbidden_by_restricted
from tests.support.rows import each

GOOD: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "c",
            "image": "i",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
PLAIN: Json = {"containers": [{"name": "c", "image": "i"}]}


def with_(spec: Json, path: str, value: Any) -> Json:
    """Return a spec with one field set: `c.` is the container, `p.` the pod."""
    found = copy.deepcopy(spec)
    where, *fields = path.split(".")
    place = found["containers"][0] if where == "c" else found
    for field in fields[:-1]:
        place = place.setdefault(field, {})
    place[fields[-1]] = value
    return found


# (field, what is allowed, what is not)
BASELINE: dict[str, tuple[str, tuple[Any, ...], tuple[Any, ...]]] = {
    "HostProcess of a pod": ("p.securityContext.windowsOptions.hostProcess", (None, False), (True,)),
    "HostProcess of a container": ("c.securityContext.windowsOptions.hostProcess", (None, False), (True,)),
    "host network": ("p.hostNetwork", (None, False), (True,)),
    "host PID": ("p.hostPID", (None, False), (True,)),
    "host IPC": ("p.hostIPC", (None, False), (True,)),
    "privileged": ("c.securityContext.privileged", (None, False), (True,)),
    "capabilities": (
        "c.securityContext.capabilities.add",
        (None, [], ["CHOWN", "NET_BIND_SERVICE"]),
        (["SYS_ADMIN"], ["CHOWN", "NET_RAW"], ["ALL"]),
    ),
    "hostPath": (
        "p.volumes",
        (None, [{"name": "v", "emptyDir": {}}]),
        ([{"name": "v", "hostPath": {"path": "/"}}], [{"name": "v", "hostPath": {}}]),
    ),
    "host ports": ("c.ports", (None, [{"containerPort": 80}, {"hostPort": 0}]), ([{"hostPort": 80}],)),
    "probe to a host": ("c.livenessProbe.httpGet.host", (None, ""), ("10.0.0.1", "127.0.0.1")),
    "readiness to a host": ("c.readinessProbe.tcpSocket.host", (None, ""), ("10.0.0.1",)),
    "startup to a host": ("c.startupProbe.httpGet.host", (None, ""), ("10.0.0.1",)),
    "hook to a host": ("c.lifecycle.postStart.httpGet.host", (None, ""), ("10.0.0.1",)),
    "last hook to a host": ("c.lifecycle.preStop.tcpSocket.host", (None, ""), ("10.0.0.1",)),
    "AppArmor of a pod": (
        "p.securityContext.appArmorProfile",
        (None, {"type": "Localhost"}),
        ({"type": "Unconfined"},),
    ),
    "AppArmor of a container": (
        "c.securityContext.appArmorProfile",
        (None, {"type": "RuntimeDefault"}),
        ({"type": "Unconfined"}, {}),
    ),
    "SELinux type": ("c.securityContext.seLinuxOptions.type", (None, "", "container_t"), ("spc_t",)),
    "SELinux type of a pod": ("p.securityContext.seLinuxOptions.type", (None, "container_engine_t"), ("spc_t",)),
    "SELinux user": ("p.securityContext.seLinuxOptions.user", (None, ""), ("root",)),
    "SELinux role": ("c.securityContext.seLinuxOptions.role", (None, ""), ("sysadm_r",)),
    "/proc mount": ("c.securityContext.procMount", (None, "Default"), ("Unmasked",)),
    "seccomp of a pod": (
        "p.securityContext.seccompProfile",
        (None, {"type": "RuntimeDefault"}, {"type": "Localhost"}),
        ({"type": "Unconfined"},),
    ),
    "seccomp of a container": ("c.securityContext.seccompProfile", (None,), ({"type": "Unconfined"},)),
    "sysctls": (
        "p.securityContext.sysctls",
        (None, [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
        ([{"name": "kernel.msgmax", "value": "1"}],),
    ),
}
RESTRICTED: dict[str, tuple[str, tuple[Any, ...], tuple[Any, ...]]] = {
    "volume types": (
        "p.volumes",
        (
            [{"name": "v", kind: {}} for kind in ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral")],
            [{"name": "v", kind: {}} for kind in ("persistentVolumeClaim", "projected", "secret")],
        ),
        ([{"name": "v", "nfs": {}}], [{"name": "v", "iscsi": {}}], [{"name": "v", "hostPath": {}}]),
    ),
    "privilege escalation": ("c.securityContext.allowPrivilegeEscalation", (False,), (None, True)),
    "non-root of a pod": ("p.securityContext.runAsNonRoot", (True,), (None, False)),
    "non-root of a container": ("c.securityContext.runAsNonRoot", (None, True), (False,)),
    "user of a pod": ("p.securityContext.runAsUser", (None, 1000), (0,)),
    "user of a container": ("c.securityContext.runAsUser", (None, 1000), (0,)),
    "seccomp": ("p.securityContext.seccompProfile", ({"type": "Localhost"},), (None, {"type": "Unconfined"})),
    "capabilities dropped": ("c.securityContext.capabilities.drop", (["ALL"], ["ALL", "KILL"]), (None, [], ["KILL"])),
    "capabilities added": ("c.securityContext.capabilities.add", (None, ["NET_BIND_SERVICE"]), (["CHOWN"],)),
}


@each(("path", "allowed", "not_allowed"), BASELINE.values(), ids=BASELINE.keys())
def test_a_control_of_baseline(path: str, allowed: tuple[Any, ...], not_allowed: tuple[Any, ...]) -> None:
    for value in allowed:
        assert forbidden_by_baseline({}, with_(PLAIN, path, value)) == []
    for value in not_allowed:
        found = forbidden_by_baseline({}, with_(PLAIN, path, value))
        assert len(found) == 1, (value, found)
        assert found[0].startswith("spec.containers[c]." if path.startswith("c.") else "spec.")


@each(("path", "allowed", "not_allowed"), RESTRICTED.values(), ids=RESTRICTED.keys())
def test_a_control_of_restricted(path: str, allowed: tuple[Any, ...], not_allowed: tuple[Any, ...]) -> None:
    for value in allowed:
        assert forbidden_by_restricted(with_(GOOD, path, value)) == []
    for value in not_allowed:
        assert forbidden_by_restricted(with_(GOOD, path, value)) != [], value


@pytest.mark.parametrize(
    ("value", "fits"), [("runtime/default", True), ("localhost/mine", True), ("", True), ("unconfined", False)]
)
def test_the_older_mark_of_apparmor(value: str, fits: bool) -> None:
    found = forbidden_by_baseline({"container.apparmor.security.beta.kubernetes.io/c": value}, PLAIN)
    assert (found == []) == fits
    assert forbidden_by_baseline({"example.com/note": "unconfined"}, PLAIN) == []


@pytest.mark.parametrize("field", ["initContainers", "ephemeralContainers"])
def test_every_sort_of_container_counts(field: str) -> None:
    bad = {"name": "b", "securityContext": {"privileged": True}}
    assert forbidden_by_baseline({}, {**PLAIN, field: [bad]}) == [
        f"spec.{field}[b].securityContext.privileged: must not be true"
    ]
    assert forbidden_by_restricted({**GOOD, field: [{"name": "b"}]}) != []


def test_what_is_said_of_the_whole_pod_holds_for_a_container_that_says_nothing() -> None:
    own = with_(
        with_(GOOD, "c.securityContext.runAsNonRoot", True), "c.securityContext.seccompProfile", {"type": "Localhost"}
    )
    own["securityContext"] = {}
    assert forbidden_by_restricted(own) == []
    assert forbidden_by_restricted(GOOD) == []
    assert len(forbidden_by_restricted(PLAIN)) == 4


def test_what_only_linux_knows_is_not_asked_of_windows() -> None:
    windows = {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, **PLAIN}
    assert forbidden_by_restricted(windows) == []
    assert forbidden_by_restricted({**PLAIN, "os": {"name": "windows"}}) != []


@each(
    "spec",
    [
        {"containers": "c"},
        {"containers": ["c"]},
        {"containers": [], "securityContext": []},
        {"containers": [{"securityContext": "privileged"}]},
        {"containers": [{"securityContext": {"capabilities": {"add": "ALL"}}}]},
        {"containers": [], "volumes": {"hostPath": {}}},
    ],
    ids=repr,
)
def test_what_has_the_wrong_shape_is_no_pod(spec: Json) -> None:
    with pytest.raises(Misfit):
        forbidden_by_baseline({}, spec)
