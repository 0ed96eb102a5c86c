"""How long a page takes until something of it is seen: the first contentful paint in Chromium, of somebody who comes
for the first time.

In: the address of the pages, and paths. Out: milliseconds by path; nothing where there is no Chromium or no
Playwright."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
_PAINT = """new Promise(found => new PerformanceObserver(list => {
  for (const one of list.getEntries()) if (one.name === 'first-contentful-paint') found(one.startTime)
}).observe({type: 'paint', buffered: true}))"""


def first_paints(address: str, paths: Sequence[str], repeat: int) -> Mapping[str, float]:
    """Return the median of each path, each time with an empty cache."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if not CHROMIUM.exists():
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_ARGUMENTS)
        try:
            _painted(browser, address.rstrip("/") + paths[0])  # the browser's own first start
            return {
                path: statistics.median(_painted(browser, address.rstrip("/") + path) for _ in range(repeat))
                for path in paths
            }
        finally:
            browser.close()


def _painted(browser: Any, url: str) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(url, wait_until="commit", timeout=120_000)
        return float(page.evaluate(_PAINT))
    finally:
        context.close()
