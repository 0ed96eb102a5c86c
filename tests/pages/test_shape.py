"""What holds for every page: nothing is changed, nothing is inline, headers are strict, and the API is as its document
says."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from controlplane.pages.app import STATIC
from controlplane.pages.routes import API, PAGES, Page, Problem, openapi, path_parameters
from controlplane.pages.shielding import HEADERS
from tests.support.deep import examples

PLACES = {
    "namespace": "team-b",
    "name": "sim",
    "cluster": "north",
    "position": "202",
    "report": "without-west",
    "queue": "team-b-queue",
    "clusterqueue": "batch",
}
ADDRESSES = [page.path.format(**PLACES) for page in PAGES if page.template]


class Strict(HTMLParser):
    """Finds what the Content-Security-Policy refuses, and what leads elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or (tag == "script" and not given.get("src")):
            self.wrong.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith(("on", "hx-on")):
                self.wrong.append(f"{tag} {name}")
            if name in ("href", "src", "action") and not (value or "").startswith(("/", "#")):
                self.wrong.append(f"{tag} {name}={value}")


@pytest.mark.parametrize(
    "address",
    [*ADDRESSES, "/usage?by=day&days=3660", "/nothing", "/workloads?at=nonsense", "/?at=2026-01-01T13:00:00Z"],
)
def test_nothing_is_inline_and_nothing_leads_elsewhere(pages: TestClient, address: str) -> None:
    answer = pages.get(address)
    strict = Strict()
    strict.feed(answer.text)
    assert strict.wrong == []
    assert all(answer.headers[name] == value for name, value in HEADERS.items())
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("address", ["/workloads", f"{API}/workloads"])
def test_a_page_that_cannot_be_made_has_the_same_headers(
    pages: TestClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site: Any = pages.app.state.site  # type: ignore[attr-defined]
    monkeypatch.setattr(site, "readers", None)
    answer = pages.get(address)
    assert answer.status_code == 500
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["Cache-Control"] == "no-store"


def test_no_address_takes_anything_but_get_and_head(pages: TestClient) -> None:
    """So there is nothing that another site could have a browser post."""
    for route in pages.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, Route | Mount)
        if isinstance(route, Route):
            assert route.methods == {"GET", "HEAD"}, route.path
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        for address in [*ADDRESSES, f"{API}/workloads", "/static/page.css"]:
            answer = pages.request(method, address)
            assert answer.status_code == 405, (method, address)
            assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8081", 200),
        ("localhost", 200),
        ("[::1]:8081", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_without_authentication_only_this_machine_is_asked_for(pages: TestClient, host: str, status: int) -> None:
    assert pages.get("/workloads", headers={"Host": host}).status_code == status


def test_vendored_files_are_those_that_were_published() -> None:
    vendor = STATIC / "vendor"
    sums = dict(reversed(line.split("  ")) for line in (vendor / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in vendor.iterdir()
        if file.name not in ("SHA256SUMS", "README.md")
    }
    readme = (vendor / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in sums)


def test_every_file_of_a_page_is_there(pages: TestClient) -> None:
    for address in [*ADDRESSES, "/usage?by=day"]:
        for file in re.findall(r'(?:src|href)="(/static/[^"]+)"', pages.get(address).text):
            assert pages.get(file).status_code == 200, file


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/workloads/team-b/sin", 404, "Did you mean <a href=\"/workloads/team-b/sim\">team-b/sim</a>"),
        ("/workloads/team-b/%00", 404, "There is nothing with such a name"),
        ("/workloads/team-b/%00/evidence.jsonl", 404, "There is nothing with such a name"),
        ("/outages/%00/202", 404, "There is nothing with such a name"),
        ("/workload", 404, 'Did you mean <a href="/workloads">/workloads</a>'),
        ("/workloads?stat=Running", 400, "There is no parameter &#34;stat&#34;: did you mean state?"),
        ("/workloads?state=Runing", 400, "&#34;Runing&#34; is none of"),
        ("/workloads?limit=0", 400, "is no whole number from 1 to 500"),
        ("/workloads?after=x", 400, "is no cursor that this page gave out"),
        ("/workloads?at=now&after=%C2%B2", 400, "is no cursor that this page gave out"),
        ("/workloads?at=yesterday", 400, "&#34;yesterday&#34; is not a time: write 2026-01-31T13:00:00Z"),
        ("/?at=2999-01-01", 400, "is to come"),
        ("/?at=1999-01-01", 400, "it begins later"),
        ("/events/0", 400, "is no position"),
        ("/events/99999999999999999999", 400, "is no position"),
        ("/events/4000000", 404, "There is no event at position 4000000"),
        ("/outages/north/1", 404, "No absence of north begins at position 1"),
        ("/usage?by=week", 400, "hours are not added up by &#34;week&#34;"),
        ("/workloads/team-b/sim?at=2026-01-01%2001:00", 404, "at that time"),
    ],
)  # fmt: skip
def test_wrong_input_gets_one_sentence(pages: TestClient, address: str, status: int, said: str) -> None:
    answer = pages.get(address)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_the_document_has_every_page(pages: TestClient) -> None:
    document = pages.get(f"{API}/openapi.json").json()
    assert document == msgspec.to_builtins(openapi(document["info"]["version"]))
    assert set(document["paths"]) == {f"{API}{page.api}" for page in PAGES}
    names = [one["get"]["operationId"] for one in document["paths"].values()]
    assert len(names) == len(set(names))
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', msgspec.json.encode(document).decode()))
    assert references <= set(document["components"]["schemas"])


NAMES = ["team-a", "team-b", "sim", "north", "202", "1h", "now"]
SCALARS = st.one_of(st.text(max_size=12), st.integers(-2, 10**20).map(str), st.sampled_from(NAMES))


@pytest.mark.generated
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_whatever_is_asked_the_answer_is_as_the_document_says(pages: TestClient, page: Page) -> None:
    @settings(max_examples=examples(8, 150), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def asked(data: st.DataObject) -> None:
        known = {one.name: SCALARS if not one.words else st.sampled_from([*one.words, "x"]) for one in page.asks}
        query = data.draw(st.fixed_dictionaries({}, optional=known)) if known else {}
        path = page.api
        for name in path_parameters(path):
            place = data.draw(
                st.one_of(st.just(PLACES[name]), SCALARS.filter(lambda text: text.strip("./") == text != ""))
            )
            path = path.replace(f"{{{name}}}", _quoted(place))
        answer = pages.get(f"{API}{path}", params=query)
        assert answer.status_code in (200, 400, 404), answer.text
        kind: Any = page.answer if answer.status_code == 200 else Problem
        msgspec.json.decode(answer.content, type=kind, strict=True)

    asked()


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
