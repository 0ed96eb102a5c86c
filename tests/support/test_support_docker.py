"""A Docker engine that answers and has no image to give: the run takes the embedded server, and says so in one line.

The engine here speaks Docker's protocol over HTTP, as far as it is asked before it says no.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.postgres import IMAGE

TEST = "tests/support/test_support_postgres.py::test_each_test_has_a_migrated_database_of_its_own"


class Engine(BaseHTTPRequestHandler):
    """Knows its version, has no images, and reaches no registry."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.endswith("/version"):
            self._answer(200, {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "25.0.0"})
        elif self.path.endswith("/_ping"):
            self._answer(200, "OK")
        elif self.path.endswith("/info"):
            self._answer(200, {"OperatingSystem": "nothing"})
        else:
            self._answer(404, {"message": "No such image"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pulls = "/images/create" in self.path
        said = "toomanyrequests: You have reached your pull rate limit" if pulls else "No such image"
        self._answer(500 if pulls else 404, {"message": said})

    def _answer(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def played(engine: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTROLPLANE_", "PYTEST_"))}
    environment = kept | {"DOCKER_HOST": engine} | settings
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, TEST],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("parallel", [("-n", "1"), ()], ids=["parallel", "alone"])
def test_an_image_that_cannot_be_pulled_is_one_line(engine: str, parallel: tuple[str, ...]) -> None:
    done = played(engine, *parallel)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "embedded server takes its place" in line]
    assert len(told) == 1
    assert IMAGE in told[0]
    assert "Traceback" not in done.stdout + done.stderr


def test_a_container_that_was_asked_for_and_cannot_be_had_is_wrong_usage(engine: str) -> None:
    done = played(engine, CONTROLPLANE_TEST_PG="docker")
    assert done.returncode == 4
    assert "CONTROLPLANE_TEST_PG=docker, but Docker cannot run" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
