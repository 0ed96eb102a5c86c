"""The pages: each with its address, its view, and what it may be asked. The only list of them; the addresses of pages
and of the read API, and the OpenAPI document, are made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from controlplane.pages.asking import Asked, Parameter
from controlplane.pages.views import cluster, event, fleet, outages, pods, queue, queues, whatif, workload, workloads

API = "/api/v1"
AT = Parameter("at", "as it was at a time: 2026-01-31T13:00:00Z, 2026-01-31 13:00 (UTC), or how long ago, such as 6h")
View = Callable[[Asked], msgspec.Struct]


class Page(NamedTuple):
    """A page. `api` is its address below `API`. `everything`: it is only for who may see all namespaces. `follows`: it
    is made of what is followed; `past`: it can be asked as of a time. `template` is "" where only the API has it."""

    name: str
    path: str
    api: str
    text: str
    view: View
    answer: type[msgspec.Struct]
    template: str = ""
    parameters: tuple[Parameter, ...] = ()
    everything: bool = False
    follows: bool = False
    past: bool = True

    @property
    def asks(self) -> tuple[Parameter, ...]:
        """All parameters of the page's address."""
        return (*self.parameters, *([AT] if self.past else []))


PAGES: tuple[Page, ...] = (
    Page(
        "fleet", "/", "/clusters", "The clusters: connection, load, owed work, grace in force, and how placing goes.",
        fleet.fleet, fleet.Fleet, "fleet.html", (), everything=True, follows=True,
    ),
    Page(
        "cluster", "/clusters/{cluster}", "/clusters/{cluster}",
        "One cluster: its connection, the Workloads that it has, its absences, and what happened to it.",
        cluster.cluster, cluster.ClusterStory, "cluster.html", everything=True, follows=True,
    ),
    Page(
        "workloads", "/workloads", "/workloads", "Workloads: how far each is, where, and what it waits for.",
        workloads.workloads, workloads.WorkloadList, "workloads.html", workloads.PARAMETERS, follows=True,
    ),
    Page(
        "workload", "/workloads/{namespace}/{name}", "/workloads/{namespace}/{name}",
        "One Workload, by its name or by that of its job: why it is where it is, its way, its events.",
        workload.workload, workload.WorkloadStory, "workload.html", workload.PARAMETERS,
    ),
    Page(
        "event", "/events/{position}", "/events/{position}",
        "One event of the log: what it rests on, what followed, the state before and after it.",
        event.event, event.EventStory, "event.html",
    ),
    Page(
        "outages", "/outages", "/outages", "The absences of clusters, the newest first.",
        outages.outages, outages.OutageList, "outages.html", outages.PARAMETERS, everything=True,
    ),
    Page(
        "outage", "/outages/{cluster}/{position}", "/outages/{cluster}/{position}",
        "One absence of a cluster, and what became of each Workload that ran there.",
        outages.outage, outages.OutageStory, "outage.html", everything=True, follows=True,
    ),
    Page(
        "queues", "/queues", "/queues", "LocalQueues: how far their Workloads are, what they wait for, who is first.",
        queues.queues, queues.QueueList, "queues.html", queues.PARAMETERS, follows=True,
    ),
    Page(
        "queue", "/queues/{namespace}/{queue}", "/queues/{namespace}/{queue}",
        "One LocalQueue: its Workloads that have quota, those that wait and why, and who had quota before.",
        queue.local_queue, queue.LocalQueueStory, "queue.html", follows=True,
    ),
    Page(
        "clusterqueue", "/clusterqueues/{clusterqueue}", "/clusterqueues/{clusterqueue}",
        "One ClusterQueue: its quota, who has it, who waits for it in which order and why, and who had it before.",
        queue.cluster_queue, queue.ClusterQueueStory, "clusterqueue.html", everything=True, follows=True,
    ),
    Page(
        "usage", "/usage", "/usage", "The hours that jobs ran, and what they asked for in them.",
        queues.hours, queues.UsageTable, "usage.html", queues.USAGE_PARAMETERS, follows=True,
    ),
    Page(
        "pods", "/pods", "/pods", "Pods that wait for another cluster or for a node, and why, by reason.",
        pods.pods, pods.PodList, "pods.html", pods.PARAMETERS, follows=True,
    ),
    Page(
        "whatif", "/whatif", "/whatif", "Reports of `controlplane whatif`: what would have come of something else.",
        whatif.reports, whatif.ReportList, "reports.html", everything=True, past=False,
    ),
    Page(
        "report", "/whatif/{report}", "/whatif/{report}",
        "One report: waits, utilisation, moves and lost hours, as they were and as they would have been.",
        whatif.report, whatif.WhatIfStory, "report.html", everything=True, past=False,
    ),
)  # fmt: skip


def path_parameters(path: str) -> list[str]:
    """Return the names in an address that stand for a value."""
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of the read API."""
    answers = [*(page.answer for page in PAGES), Problem]
    schemas, components = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    paths = {f"{API}{page.api}": {"get": _operation(page, schemas[n], schemas[-1])} for n, page in enumerate(PAGES)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Controlplane",
            "version": version,
            "description": "What there is to see of a log; it only reads.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


class Problem(msgspec.Struct):
    """Why there is no answer: one sentence, and names that may have been meant."""

    error: str
    near: list[str] = []


def _operation(page: Page, answer: dict[str, Any], problem: dict[str, Any]) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_parameters(page.api)
    ]
    refusals = {"400": "a parameter cannot be used", "401": "it is not known who asks", "404": "there is no such thing"}
    refusals["410"] = "it is in an archive"
    refusals["503"] = "it cannot be answered now"
    said = {
        code: {"description": text, "content": {"application/json": {"schema": problem}}}
        for code, text in refusals.items()
    }
    return {
        "operationId": page.name,
        "summary": page.text,
        "parameters": [*in_path, *map(_parameter, page.asks)],
        "responses": {
            "200": {"description": "the answer", "content": {"application/json": {"schema": answer}}},
            **said,
        },
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if one.number:
        schema = {"type": "integer", "minimum": 1, "maximum": one.number}
    elif one.words:
        schema["enum"] = list(one.words)
    if one.default:
        schema["default"] = int(one.default) if one.number else one.default
    return {"name": one.name, "in": "query", "description": one.text, "schema": schema}
