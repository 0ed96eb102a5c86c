"""Messages carry their context and no secret; metrics are named as documented."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from controlplane import telemetry
from controlplane.quota_metrics import GAUGES, PREFIX
from controlplane.settings import DatabaseUrl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_message_is_one_json_line_with_its_context() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "json", stream)
    log = telemetry.logger("controlplane.runtime")
    with structlog.contextvars.bound_contextvars(cluster="worker1"):
        log.info("dispatched", workload="ns/job", count=2)
    log.debug("not important enough")
    (said,) = lines(stream)
    assert {key: said[key] for key in ("event", "cluster", "workload", "count", "level", "logger")} == {
        "event": "dispatched",
        "cluster": "worker1",
        "workload": "ns/job",
        "count": 2,
        "level": "info",
        "logger": "controlplane.runtime",
    }
    assert str(said["timestamp"]).endswith("Z")


def test_libraries_speak_in_the_same_form() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "json", stream)
    logging.getLogger("alembic.runtime").info("chatter")
    logging.getLogger("some.library").warning("cannot reach %s", "postgresql://u:hunter2@h/d", extra={"attempt": 3})
    (said,) = lines(stream)
    assert (said["event"], said["attempt"], said["level"]) == ("cannot reach postgresql://u:***@h/d", 3, "warning")


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_masked_wherever_they_are(form: str) -> None:
    stream = io.StringIO()
    telemetry.configure("debug", form, stream)
    log = telemetry.logger("t")
    hidden = "hunter2"
    log.info(
        "x",
        url=DatabaseUrl(f"postgresql://u:{hidden}@h"),
        bearer_token=hidden,
        nested={"db_password": hidden, "list": [f"https://u:{hidden}@h/"]},
        error=ValueError(f"postgresql://u:{hidden}@h"),
    )
    try:
        raise ValueError(f"no answer from postgresql://u:{hidden}@h/d")
    except ValueError:
        log.exception("failed")
    assert hidden not in stream.getvalue()
    assert "no answer from postgresql://u:***@h/d" in stream.getvalue()


def test_people_get_text_without_colours_in_a_pipe() -> None:
    stream = io.StringIO()
    telemetry.configure("warning", "console", stream)
    telemetry.logger("t").warning("careful", cluster="a")
    assert "careful" in stream.getvalue()
    assert "cluster=a" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_the_last_configuration_holds() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = telemetry.logger("t")
    telemetry.configure("info", "json", first)
    log.info("one")
    telemetry.configure("error", "json", second)
    log.info("two")
    log.error("three")
    assert [said["event"] for said in lines(first)] == ["one"]
    assert [said["event"] for said in lines(second)] == ["three"]


def test_the_page_is_the_one_that_the_code_writes() -> None:
    assert PAGE.read_text() == telemetry.reference(), (
        "run: python -m controlplane.telemetry > docs/reference/metrics.md"
    )


def test_the_page_names_what_the_registry_serves() -> None:
    own = telemetry.Metrics()
    ours = ("controlplane_", "kueue_", "multikueue_")
    served = {family.name for family in own.registry.collect() if family.name.startswith(ours)}
    when_leading = {f"{PREFIX}_{name}" for name in GAUGES}  # they are read from the state of whoever leads
    assert served == {name.removesuffix("_total") for name, *_ in own.table if name not in when_leading}
    for name, kind, labels, doc in own.table:
        assert name.endswith("_total") == (kind == "counter")
        assert doc.endswith(".")
        row = f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels) or '–'} | {doc} |"
        assert row in telemetry.reference()


def test_a_removed_cluster_is_not_reported_any_more() -> None:
    own = telemetry.Metrics()
    own.cluster_connected.labels(cluster="gone").set(0)
    own.cluster_connected.labels(cluster="stays").set(1)
    own.api_requests.labels(cluster="gone", verb="get", resource="jobs", code="200").inc()
    own.forget_cluster("gone")
    own.forget_cluster("never seen")
    clusters = {
        sample.labels["cluster"]
        for family in own.registry.collect()
        for sample in family.samples
        if "cluster" in sample.labels
    }
    assert clusters == {"stays"}


def test_who_does_not_lead_reports_no_cluster_and_keeps_what_it_counted() -> None:
    own = telemetry.Metrics()
    own.cluster_phase.labels(cluster="a", phase="Lost").set(1)
    own.effects_open.labels(cluster="a").set(3)
    own.cluster_suspected.labels(cluster="a").inc()
    own.forget_clusters()
    left = {family.name for family in own.registry.collect() for sample in family.samples if "cluster" in sample.labels}
    assert left == {"controlplane_cluster_suspected"}
