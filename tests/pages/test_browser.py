"""The pages in a browser: light and dark, narrow and wide, by keyboard alone, without anything that axe objects to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.audit.reads import READ
from controlplane.log.event import NewEvent
from controlplane.pages.routes import PAGES
from tests.audit.script import write
from tests.docs.fleet_story import story
from tests.pages.browser import IMAGES, PICTURES, browser, opened, serving
from tests.pages.reports import write_report

pytestmark = pytest.mark.deep
PLACES = {
    "namespace": "team-b",
    "name": "sim",
    "cluster": "north",
    "position": "202",
    "report": "without-west",
    "queue": "team-b-queue",
    "clusterqueue": "batch",
}
ADDRESSES = [page.path.format(**PLACES) for page in PAGES if page.template] + [
    "/usage?by=day&days=3660", "/workloads?at=2026-01-01T13:00:00Z", "/workloads/team-b/sim?at=2026-01-01T13:00:00Z",
    "/workloads/team-b/sin", "/workloads?at=nonsense",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(fleet_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reports = tmp_path_factory.mktemp("reports")
    write_report(reports)
    with serving(fleet_url, CONTROLPLANE_WEB_WHATIF_DIRECTORY=str(reports)) as found:
        yield found


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    """A page whose console is empty in the end: what the policy refuses is said there, and what could not be had. A 503
    is asked again (`opened`): the log is still being read, or the machine is so busy that the database lost
    patience."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    made, said = context.new_page(), list[str]()
    made.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: said.append(str(error)))
    opened(made, f"{address}/workloads")
    yield made
    context.close()
    assert [text for text in said if "status of 40" not in text and "status of 503" not in text] == []


@pytest.mark.parametrize("path", ADDRESSES)
def test_no_page_is_wider_than_the_window(page: Any, address: str, path: str) -> None:
    for width in (360, 768, 1280, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        opened(page, address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ADDRESSES)
def test_axe_finds_nothing(page: Any, address: str, path: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    opened(page, address + path)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found] == []


def test_by_keyboard_from_the_list_to_an_event(page: Any, address: str) -> None:
    page.goto(f"{address}/workloads")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    _tab_to(page, lambda text: text == "job-sim-0a1b2")
    page.keyboard.press("Enter")
    page.wait_for_url("**/workloads/team-b/job-sim-0a1b2")
    _tab_to(page, lambda text: "north: running from" in text)
    assert page.evaluate("document.activeElement.tagName.toLowerCase()") == "a"
    page.keyboard.press("Enter")
    page.wait_for_url("**/events/*")
    assert "WinnerChosen" in page.content() or "RemoteJobObserved" in page.content()


def _tab_to(page: Any, fits: Any) -> None:
    for _ in range(200):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
        )
        if fits(said):
            return
    raise AssertionError("nothing of that name can be reached")


def test_the_slider_leads_into_the_past_and_back(page: Any, address: str) -> None:
    page.goto(f"{address}/workloads?state=Lost")
    assert page.locator("tbody tr").count() == 0
    page.locator("#slider").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**at=2026-01-01T00*")
    assert page.locator(".notice").inner_text().startswith("As it was at 2026-01-01 00:00")
    page.goto(f"{address}/workloads?state=Lost&at=2026-01-01T13:00:00Z")
    assert page.locator("tbody tr").count() == 2
    page.get_by_text("Back to now").click()
    page.wait_for_url("**/workloads?state=Lost")


def test_hours_by_day_are_drawn(page: Any, address: str) -> None:
    page.goto(f"{address}/usage?by=day&days=3660")
    page.wait_for_selector(".chart canvas")


def test_the_slider_stands_at_the_time_that_was_typed(page: Any, address: str) -> None:
    page.goto(f"{address}/queues?at=2026-01-01 12:00")
    typed = int(page.locator("#slider").input_value())
    page.goto(f"{address}/queues?at=1m")
    assert 0 <= typed < int(page.locator("#slider").input_value()) <= 1000
    assert typed < 1000


def tell(url: str, events: list[NewEvent]) -> None:
    """Append events from a thread of its own: Playwright has a loop in this one."""
    writing = threading.Thread(target=lambda: asyncio.run(write(url, events, types=READ)))
    writing.start()
    writing.join()


def test_the_nodes_behind_a_reason_are_opened_by_keyboard_and_stay_open(chromium: Any, database_url: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    from tests.pages.test_pods import NODES, PREEMPTION, failed, pod

    story = [pod("web"), failed("web", PREEMPTION, nodes=NODES), pod("job"), failed("job", PREEMPTION, nodes=NODES)]
    events = [NewEvent(stream=stream, event=event) for stream, event in story]
    tell(database_url, events[:2])
    with serving(database_url) as address:
        page = chromium.new_page(viewport={"width": 360, "height": 900})
        opened(page, f"{address}/pods")
        node = page.get_by_text("n<b>", exact=True)
        assert not node.is_visible()
        _tab_to(page, lambda text: text == "Insufficient cpu")
        page.keyboard.press("Enter")
        node.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert Axe().run(page).response["violations"] == []
        tell(database_url, events[2:])
        page.get_by_text("2 pods wait for a node.").wait_for()
        assert node.is_visible()
        assert page.evaluate("document.activeElement.textContent") == "Insufficient cpu"
        page.close()


def test_what_happens_is_shown_without_a_reload(chromium: Any, database_url: str) -> None:
    events = story().appended
    tell(database_url, events[:140])
    with serving(database_url) as address:
        page = chromium.new_page()
        opened(page, f"{address}/workloads")
        page.evaluate("window.kept = true")
        assert page.locator("tbody tr").count() == 3
        page.locator("input[name=text]").fill("half-typ")
        tell(database_url, events[140:])
        page.locator("tbody tr").nth(9).wait_for()
        assert page.evaluate("window.kept") is True
        assert page.locator("#position").inner_text() == str(len(events))
        assert page.locator("input[name=text]").input_value() == "half-typ"
        assert page.evaluate("document.activeElement.name") == "text"


@pytest.mark.parametrize("late", ["htmx.min.js", "hx-sse.min.js", "page.js"])
def test_a_page_is_live_whichever_script_comes_late(chromium: Any, address: str, late: str) -> None:
    page = chromium.new_page()
    page.route(f"**/{late}", lambda route: (time.sleep(0.5), route.continue_()))
    with page.expect_response(lambda answer: "/stream?" in answer.url):
        opened(page, f"{address}/workloads")
    page.close()


def test_the_pictures_of_the_documentation_are_small() -> None:
    for name in PICTURES:
        assert (IMAGES / f"{name}.png").stat().st_size <= 150_000
