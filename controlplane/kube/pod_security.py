"""What a pod asks for beyond a level of Kubernetes' Pod Security Standards: pure judgements, one for each control.

In: a pod's annotations and spec. Out: what `baseline` forbids of it, and what `restricted` forbids besides, in words
that name the field. The controls are those of https://kubernetes.io/docs/concepts/security/pod-security-standards, as
the admission of v1.36 knows them (kubernetes/kubernetes, staging/src/k8s.io/pod-security-admission/policy). What it
relaxes for pods in user namespaces is not relaxed here."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.fields import items, section, strings
from controlplane.kube.kinds import Json

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)

_CAPABILITIES = frozenset(
    [
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    ]
)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        *("net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
    ]
)
_VOLUMES = frozenset(
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"]
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")
_PROBES, _HOOKS = ("livenessProbe", "readinessProbe", "startupProbe"), ("postStart", "preStop")
_Context = tuple[str, Json]  # where a securityContext is, and what it says


def forbidden_by_baseline(annotations: Json, spec: Json) -> list[str]:
    """Return what the level `baseline` forbids of a pod; `Misfit` if a field has the wrong shape."""
    return [
        *_host(spec),
        *_contexts_baseline(spec),
        *_volumes_baseline(spec),
        *_containers_baseline(spec),
        *_apparmor(annotations),
    ]


def forbidden_by_restricted(spec: Json) -> list[str]:
    """Return what the level `restricted` forbids of a pod besides; `Misfit` if a field has the wrong shape."""
    windows = section(spec, "os", "spec").get("name") == "windows"
    found = [*_volume_types(spec), *_non_root(spec)]
    return found if windows else [*found, *_escalation(spec), *_seccomp_set(spec), *_capabilities_dropped(spec)]


def _containers(spec: Json) -> Iterator[tuple[str, Json]]:
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in items(spec, field, "spec"):
            yield f"spec.{field}[{container.get('name', '')}]", container


def _own(spec: Json) -> list[_Context]:
    return [(f"{at}.securityContext", section(one, "securityContext", at)) for at, one in _containers(spec)]


def _whole(spec: Json) -> _Context:
    return "spec.securityContext", section(spec, "securityContext", "spec")


def _all(spec: Json) -> list[_Context]:
    return [_whole(spec), *_own(spec)]


def _profile(at: str, context: Json, field: str) -> str | None:
    """Return the type of a profile, None if it is not set."""
    if context.get(field) is None:
        return None
    return str(section(context, field, at).get("type") or "")


# --- baseline --------------------------------------------------------------------------------------------------------


def _host(spec: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"spec.{field}: the node's own must not be shared"


def _contexts_baseline(spec: Json) -> Iterator[str]:
    for at, context in _all(spec):
        if section(context, "windowsOptions", at).get("hostProcess"):
            yield f"{at}.windowsOptions.hostProcess: must not be true"
        if context.get("privileged"):
            yield f"{at}.privileged: must not be true"
        if context.get("procMount") not in (None, "", "Default"):
            yield f"{at}.procMount: must be Default"
        yield from _selinux(at, section(context, "seLinuxOptions", at))
        for field in ("seccompProfile", "appArmorProfile"):
            if _profile(at, context, field) not in (None, *_PROFILES):
                yield f"{at}.{field}.type: must be {' or '.join(_PROFILES)}"
        added = set(strings(section(context, "capabilities", at), "add", f"{at}.capabilities"))
        if more := sorted(added - _CAPABILITIES):
            yield f"{at}.capabilities.add: {', '.join(more)}"
    at, whole = _whole(spec)
    for entry in items(whole, "sysctls", at):
        if entry.get("name") not in _SYSCTLS:
            yield f"{at}.sysctls: {entry.get('name')}"


def _selinux(at: str, options: Json) -> Iterator[str]:
    if (options.get("type") or "") not in _SELINUX_TYPES:
        yield f"{at}.seLinuxOptions.type: {options.get('type')}"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{at}.seLinuxOptions.{field}: must not be set"


def _volumes_baseline(spec: Json) -> Iterator[str]:
    for volume in items(spec, "volumes", "spec"):
        if volume.get("hostPath") is not None:
            yield f"spec.volumes[{volume.get('name', '')}].hostPath: must not be used"


def _containers_baseline(spec: Json) -> Iterator[str]:
    for at, container in _containers(spec):
        for port in items(container, "ports", at):
            if port.get("hostPort"):
                yield f"{at}.ports.hostPort: {port['hostPort']}"
        hooks = section(container, "lifecycle", at)
        handlers = [(f"{at}.{name}", section(container, name, at)) for name in _PROBES]
        handlers += [(f"{at}.lifecycle.{name}", section(hooks, name, f"{at}.lifecycle")) for name in _HOOKS]
        for where, handler in handlers:
            for action in ("httpGet", "tcpSocket"):
                if section(handler, action, where).get("host"):
                    yield f"{where}.{action}.host: must not be set"


def _apparmor(annotations: Json) -> Iterator[str]:
    for key, value in annotations.items():
        allowed = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if key.startswith(_APPARMOR) and not allowed:
            yield f"metadata.annotations[{key}]: {value}"


# --- restricted ------------------------------------------------------------------------------------------------------


def _volume_types(spec: Json) -> Iterator[str]:
    for volume in items(spec, "volumes", "spec"):
        if others := sorted(
            key for key, value in volume.items() if value is not None and key not in (*_VOLUMES, "name")
        ):
            yield f"spec.volumes[{volume.get('name', '')}].{others[0]}: only {', '.join(sorted(_VOLUMES))}"


def _escalation(spec: Json) -> Iterator[str]:
    for at, context in _own(spec):
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{at}.allowPrivilegeEscalation: must be false"


def _non_root(spec: Json) -> Iterator[str]:
    whole = _whole(spec)[1].get("runAsNonRoot")
    if whole is False:
        yield "spec.securityContext.runAsNonRoot: must be true"
    for at, context in _own(spec):
        own = context.get("runAsNonRoot")
        if (own is None and whole is not True) or (own is not None and own is not True):
            yield f"{at}.runAsNonRoot: must be true"
    for at, context in _all(spec):
        if context.get("runAsUser") is not None and context["runAsUser"] == 0:
            yield f"{at}.runAsUser: must not be 0"


def _seccomp_set(spec: Json) -> Iterator[str]:
    whole = _profile(*_whole(spec), "seccompProfile")
    for at, context in _own(spec):
        own = _profile(at, context, "seccompProfile")
        if own is None and whole not in _PROFILES:
            yield f"{at}.seccompProfile.type: must be {' or '.join(_PROFILES)}"


def _capabilities_dropped(spec: Json) -> Iterator[str]:
    for at, context in _own(spec):
        capabilities = section(context, "capabilities", at)
        if "ALL" not in strings(capabilities, "drop", f"{at}.capabilities"):
            yield f"{at}.capabilities.drop: must have ALL"
        if more := sorted(set(strings(capabilities, "add", f"{at}.capabilities")) - {"NET_BIND_SERVICE"}):
            yield f"{at}.capabilities.add: {', '.join(more)}"
