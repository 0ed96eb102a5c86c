"""Runs a container of a pod template as a kubelet would: with its arguments, its environment, its files, and the token
of its ServiceAccount.

In: a pod template that an API server stores, and a `kubectl` of that server. Out: the process, or what a command
printed in the same surroundings, as `kubectl exec` would have it. There are no pods: a Deployment has one process."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from controlplane.kube.kinds import Json
from tests.simulation.contract.realserver import free_port

Kubectl = Callable[..., str]
IMAGE = "controlplane:"  # whose entry point is the command `controlplane`


class Container:
    """The first container of a pod template in a namespace."""

    def __init__(self, kubectl: Kubectl, kubeconfig: Json, namespace: str, template: Json, folder: Path) -> None:
        self._kubectl, self._namespace, self._folder = kubectl, namespace, folder
        self._spec: Json = template["spec"]
        self._container: Json = self._spec["containers"][0]
        assert self._container["image"].startswith(IMAGE)
        folder.mkdir(parents=True)
        self._mounts = self._files()
        self.port = free_port()
        self.environment = self._environment(kubeconfig)

    def _get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(self._kubectl("--namespace", self._namespace, "get", kind, name, "--output", "json"))
        return found

    def _files(self) -> Mapping[str, Path]:
        """Write what ConfigMaps and Secrets are mounted; return where each mount path is."""
        volumes = {one["name"]: one for one in self._spec.get("volumes", ())}
        found = {}
        for mount in self._container.get("volumeMounts", ()):
            place = self._folder / mount["name"]
            place.mkdir(exist_ok=True)
            found[mount["mountPath"]] = place
            source = volumes[mount["name"]]
            if "configMap" in source and not source["configMap"].get("optional"):
                for key, text in self._get("configmap", source["configMap"]["name"])["data"].items():
                    (place / key).write_text(text.replace(f"{mount['mountPath']}/", f"{place}/"))  # files name others
        return found

    def _environment(self, kubeconfig: Json) -> dict[str, str]:
        found = {word: os.environ[word] for word in ("PATH", "HOME") if word in os.environ}
        for one in self._container.get("env", ()):
            found[one["name"]] = self._value(one)
        if self._spec.get("automountServiceAccountToken", True):
            account = self._spec.get("serviceAccountName", "default")
            token = self._kubectl("--namespace", self._namespace, "create", "token", account).strip()
            path = self._folder / "kubeconfig"
            path.write_text(yaml.safe_dump({**kubeconfig, "users": [{"name": "real", "user": {"token": token}}]}))
            found["CONTROLPLANE_MANAGEMENT_KUBECONFIG"] = str(path)
        return {**found, "CONTROLPLANE_HTTP_PORT": str(self.port)}

    def _value(self, one: Json) -> str:
        source = one.get("valueFrom", {})
        if "secretKeyRef" in source:
            chosen = source["secretKeyRef"]
            return base64.b64decode(self._get("secret", chosen["name"])["data"][chosen["key"]]).decode()
        if "fieldRef" in source:
            return {"metadata.namespace": self._namespace, "status.podIP": "127.0.0.1"}[source["fieldRef"]["fieldPath"]]
        text: str = one["value"]
        inside = (f"{place}{text.removeprefix(path)}" for path, place in self._mounts.items() if text.startswith(path))
        return next(inside, text)

    def run(self, *words: str, check: bool = True) -> str:
        """Return what the command printed, as `kubectl exec … -- controlplane WORDS`; without words, the container's
        own arguments."""
        chosen = words or tuple(self._container["args"])
        done = subprocess.run(
            [sys.executable, "-m", "controlplane", *chosen],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{shlex.join(chosen)}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Have the container's own process."""
        with (self._folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "controlplane", *self._container["args"]]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            try:
                yield process
            finally:
                process.terminate()
                assert process.wait(self._spec.get("terminationGracePeriodSeconds", 30)) == 0, self.log()

    def ready(self) -> bool:
        """Ask what the readiness probe asks."""
        path = self._container["readinessProbe"]["httpGet"]["path"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def log(self) -> str:
        """Return what the process wrote."""
        return (self._folder / "log").read_text()[-6000:]
