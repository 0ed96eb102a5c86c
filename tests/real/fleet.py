"""A management cluster and workers as operators have them: real kube-apiservers, each with Kueue's own manager.

In: where the programs are (`KUBEBUILDER_ASSETS`; `CONTROLPLANE_TEST_KUEUE` is Kueue's manager, built of its public
source, which wants a certificate for its metrics where `METRICS` says), and CRDs (`CONTROLPLANE_TEST_CRDS`). Out:
contexts of one kubeconfig, and Kueue's managers to start and stop. No kubelet and no controller of Kubernetes runs
there: a test plays the Job controller."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml

from controlplane.kube.kinds import Json
from tests.clusters import pki
from tests.deploy.manifests import ROOT
from tests.real.pair import CRDS, WHY, install, kubeconfig_of
from tests.simulation.contract import realserver

KUEUE = os.environ.get("CONTROLPLANE_TEST_KUEUE", "")
METRICS = Path("/etc/kueue/metrics/certs/tls.crt")
WHY_NOT = (
    WHY
    or ("" if os.access(KUEUE, os.X_OK) else "CONTROLPLANE_TEST_KUEUE names no program")
    or ("" if METRICS.is_file() else f"Kueue's manager wants {METRICS}")
)
GROUPS = ("kueue.x-k8s.io", "jobset.x-k8s.io")
CONTROLLERS = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kube-controller-manager"

OWN = ("job", "deployment", "replicaset", "statefulset", "garbage-collector", "pod-garbage-collector")


class Defaulted(NamedTuple):
    """What one of Kueue's webhooks sees, and where (config/components/webhook/manifests.yaml, ff69552e)."""

    singular: str
    group: str
    path: str
    operations: tuple[str, ...] = ("CREATE",)


DEFAULTED = {
    "batch/job": Defaulted("job", "batch", "/mutate-batch-v1-job"),
    "pod": Defaulted("pod", "", "/mutate--v1-pod"),
    "deployment": Defaulted("deployment", "apps", "/mutate-apps-v1-deployment", ("CREATE", "UPDATE")),
    "statefulset": Defaulted("statefulset", "apps", "/mutate-apps-v1-statefulset", ("CREATE", "UPDATE")),
}
MANAGEMENT, WORKER = "management", "worker-a"
_T = TypeVar("_T")


class Fleet:
    """Two clusters, and a kubeconfig with a context for each; the current one is the management cluster's."""

    def __init__(self, folder: Path, kubeconfigs: Mapping[str, Json]) -> None:
        self.folder, self.kubeconfigs, self.path = folder, kubeconfigs, folder / "kubeconfig"
        found: Json = {"apiVersion": "v1", "kind": "Config", "current-context": next(iter(kubeconfigs))}
        for part in ("clusters", "users"):
            found[part] = [{**config[part][0], "name": name} for name, config in kubeconfigs.items()]
        found["contexts"] = [{"name": name, "context": {"cluster": name, "user": name}} for name in kubeconfigs]
        self.path.write_text(yaml.safe_dump(found))

    def run(self, *words: str, stdin: str = "", context: str = MANAGEMENT) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        command = ["kubectl", "--kubeconfig", str(self.path), "--context", context, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def kubectl(self, *words: str, stdin: str = "", context: str = MANAGEMENT) -> str:
        """Run kubectl and return what it printed; it must succeed."""
        done = self.run(*words, stdin=stdin, context=context)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def get(self, kind: str, name: str, *, namespace: str = "default", context: str = MANAGEMENT) -> Json | None:
        """Return an object, None if it is not there."""
        done = self.run("--namespace", namespace, "get", kind, name, "--output", "json", context=context)
        assert done.returncode == 0 or "NotFound" in done.stderr, done.stderr
        return json.loads(done.stdout) if done.returncode == 0 else None

    def node(self, context: str, name: str, cpu: str) -> None:
        """Have a node that is ready, as its kubelet and the node controller would."""
        head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.kubectl("create", "-f", "-", stdin=yaml.safe_dump(head), context=context)
        at, room = "2026-01-01T00:00:00Z", {"cpu": cpu, "memory": "8Gi", "pods": "50"}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": at}
        status = {"status": {"allocatable": room, "capacity": room, "conditions": [ready]}}
        patch = ("patch", "node", name, "--type=merge", "--patch")
        self.kubectl(*patch, json.dumps(status), "--subresource=status", context=context)
        self.kubectl(*patch, '{"spec": {"taints": null}}', context=context)

    def examples(self) -> None:
        """Have the objects of `examples` on both clusters, and the way to the worker."""
        for name, folder in ((MANAGEMENT, "management"), (WORKER, "worker")):
            text = self.kubectl("kustomize", str(ROOT / "examples" / folder), context=name)
            self.kubectl("apply", "-f", "-", stdin=text, context=name)
        (self.folder / "worker").write_text(yaml.safe_dump(self.kubeconfigs[WORKER]))
        secret = ("--namespace", "kueue-system", "create", "secret", "generic", WORKER)
        self.kubectl(*secret, f"--from-file=kubeconfig={self.folder / 'worker'}")

    def job_status(self, context: str, name: str, status: Json) -> None:
        """Write a Job's status, as the Job controller would."""
        words = (
            "patch",
            "job",
            name,
            "--subresource=status",
            "--type=merge",
            "--patch",
            json.dumps({"status": status}),
        )
        self.kubectl(*words, context=context)

    @contextmanager
    def kueue(self, name: str, frameworks: Sequence[str] = ("batch/job",), **gates: bool) -> Iterator[None]:
        """Have Kueue's own manager run on a cluster, with some kinds of job and feature gates."""
        place = self.folder / f"kueue-{name}"
        place.mkdir(exist_ok=True)
        pki.make(place, "DNS:localhost")
        for kind in ("crt", "key"):
            (place / f"tls.{kind}").write_bytes((place / f"server.{kind}").read_bytes())
        ports = [realserver.free_port() for _ in range(3)]
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{ports[0]}"},
            "metrics": {"bindAddress": f"127.0.0.1:{ports[1]}"},
            "webhook": {"host": "127.0.0.1", "port": ports[2], "certDir": str(place)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "featureGates": {"VisibilityOnDemand": False, **gates},
            "integrations": {"frameworks": list(frameworks)},
        }
        (place / "config.yaml").write_text(yaml.safe_dump(config))
        (place / "kubeconfig").write_text(yaml.safe_dump(self.kubeconfigs[name]))
        data = {"controller_manager_config.yaml": (place / "config.yaml").read_text()}
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"}, "data": data}
        self.kubectl("--namespace", "kueue-system", "apply", "-f", "-", stdin=yaml.safe_dump(settings), context=name)
        with (place / "log").open("ab") as log:
            command = [KUEUE, f"--config={place / 'config.yaml'}", f"--kubeconfig={place / 'kubeconfig'}"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                until(f"Kueue of {name}", lambda: process.poll() is not None or answers(ports[0]))
                assert process.poll() is None, (place / "log").read_text()[-3000:]
                if "pod" in frameworks:
                    self._default_by_kueue(name, frameworks, place / "ca.crt", ports[2])
                yield
            finally:
                process.terminate()
                process.wait(60)

    def _default_by_kueue(self, name: str, frameworks: Sequence[str], authority: Path, port: int) -> None:
        """Have what is created on a cluster defaulted by Kueue's webhooks, as its own configuration has it."""
        bundle = base64.b64encode(authority.read_bytes()).decode()
        places = [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
        found: Json = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "kueue-mutating-webhook-configuration"},
            "webhooks": [
                {
                    "name": f"m{one.singular}.kb.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": f"https://localhost:{port}{one.path}", "caBundle": bundle},
                    "rules": [
                        {
                            "apiGroups": [one.group],
                            "apiVersions": ["v1"],
                            "operations": list(one.operations),
                            "resources": [f"{one.singular}s"],
                        }
                    ],
                    "namespaceSelector": {"matchExpressions": places},
                }
                for framework, one in DEFAULTED.items()
                if framework in frameworks
            ],
        }
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(found), context=name)

    @contextmanager
    def controllers(self, name: str) -> Iterator[None]:
        """Have Kubernetes' own controllers of jobs and pods run on a cluster, and its garbage collector."""
        place = self.folder / f"controllers-{name}"
        place.mkdir()
        (place / "kubeconfig").write_text(yaml.safe_dump(self.kubeconfigs[name]))
        ways = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        command = [
            str(CONTROLLERS),
            *(f"--{way}={place / 'kubeconfig'}" for way in ways),
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={realserver.free_port()}",
            f"--controllers={','.join(f'{one}-controller' for one in OWN)}",
        ]
        with (place / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait(60)


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(what: str, probe: Callable[[], _T], seconds: float = 90) -> _T:
    """Return the first true answer of a probe."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.2)
    return found


@contextmanager
def fleet(folder: Path, names: Sequence[str] = (MANAGEMENT, WORKER)) -> Iterator[Fleet]:
    """Have the API servers with Kueue's CRDs and JobSet's, the namespace of Kueue, and nothing else."""
    with ExitStack() as stack:
        kubeconfigs = {}
        for name in names:
            place = folder / name
            place.mkdir()
            kubeconfigs[name] = kubeconfig_of(stack.enter_context(realserver.running(place)), place)
            (place / "kubeconfig").write_text(yaml.safe_dump(kubeconfigs[name]))
            install(place / "kubeconfig", [one for word in GROUPS for one in sorted(Path(CRDS).glob(f"{word}_*.yaml"))])
        found = Fleet(folder, kubeconfigs)
        for name in kubeconfigs:
            found.kubectl("create", "namespace", "kueue-system", context=name)
        yield found
