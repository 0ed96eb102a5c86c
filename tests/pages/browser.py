"""Debian's Chromium, headless and without anything that reaches out, and the pages served by a process as people have
it.

`python -m tests.pages.browser` makes the pictures of the documentation anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.log import schema
from tests.docs.cookbook import tell
from tests.docs.snippets import ROOT
from tests.support import postgres

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
IMAGES = ROOT / "docs/images"
PICTURES = {
    "workload": ("/workloads/team-b/sim", "light", 760),
    "workloads": ("/workloads?at=2026-01-01T13:00:00Z", "dark", 560),
}
"""The pictures of the documentation: address, colours, height."""


@contextmanager
def browser() -> Iterator[Any]:
    """Have a browser; a test is skipped where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


@contextmanager
def serving(url: str, **environment: str) -> Iterator[str]:
    """Run `controlplane web`, and have its address."""
    command = [sys.executable, "-m", "controlplane", "--database-url", url, "web", "--port", "0"]
    env = os.environ | environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            yield said.split()[4].rstrip("/")
        finally:
            process.terminate()


def opened(page: Any, address: str) -> None:
    """Open a page that is there: the log may still be read."""
    while True:
        answer = page.goto(address)
        if answer.status != 503:
            return
        page.wait_for_timeout(200)


def main() -> None:
    """Make the pictures."""
    IMAGES.mkdir(exist_ok=True)
    with postgres.server() as server:
        url = server.create(postgres.new_name("pictures"))
        schema.upgrade(url)
        tell(url)
        with serving(url) as address, browser() as chromium:
            for name, (path, scheme, height) in PICTURES.items():
                context = chromium.new_context(color_scheme=scheme, viewport={"width": 1200, "height": height})
                page = context.new_page()
                opened(page, address + path)
                page.wait_for_timeout(300)
                page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
