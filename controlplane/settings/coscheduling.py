"""The settings of how a PipelineRun's pods are kept on one node."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from controlplane.settings.rules import (
    Checked,
    Choice,
    Duration,
    Setting,
    Text,
    ip_address,
)
from controlplane.settings.words import FILE, NAMESPACE, PORT, YES_NO
from controlplane.values import Value

MODES = ("flag", "workspaces", "pipelineruns", "isolate-pipelinerun", "disabled")


class CoschedulingSettings(Value, rename="camel"):
    """How the pods of a PipelineRun are kept on one node; used if `run.controllers` names `coscheduling`."""

    mode: Annotated[
        str,
        Setting(
            Choice(MODES),
            "What is kept together. `flag`: what Tekton's own flag `coschedule` says; another mode holds instead of "
            "it, for a Tekton that is told to place nothing (`coschedule: disabled`).",
        ),
    ] = "flag"
    config_namespace: Annotated[
        str,
        Setting(
            NAMESPACE,
            "The namespace of Tekton's ConfigMaps `feature-flags` and `config-defaults`.",
        ),
    ] = "tekton-pipelines"
    image: Annotated[
        str,
        Setting(
            Text(what="the name of an image", pattern=r"\S+", longest=512, empty=True),
            "The image of placeholders, which does nothing: Tekton's own (`-nop-image` of its controller). Needed if "
            "`run.controllers` names `coscheduling`.",
        ),
    ] = ""
    old_worker: Annotated[
        str,
        Setting(
            YES_NO, "Whether Tekton here is so old (up to v0.68) that `disable-affinity-assistant` counts as well."
        ),
    ] = "no"
    end_unfit_after: Annotated[
        timedelta,
        Setting(
            Duration(zero="never"),
            "How long a task waits that can never run where its placeholder is, and nowhere else, by what nodes are "
            "and can be given, before it is cancelled with a message that says so. `0s` where nodes are added when "
            "they are needed.",
        ),
    ] = timedelta(minutes=10)
    isolate_everywhere: Annotated[
        str,
        Setting(
            YES_NO,
            "In the mode `isolate-pipelinerun`: whether a node has one run of all namespaces, or, as Tekton does it, "
            "one of each.",
        ),
    ] = "no"
    webhook_certificate: Annotated[
        str,
        Setting(
            FILE,
            "The certificate (PEM) with which the admission webhook is served, read anew when it changes. Empty: the "
            "section `webhook` says where it is served, and with what.",
        ),
    ] = ""
    webhook_key: Annotated[
        str,
        Setting(
            FILE,
            "The private key (PEM) of that certificate. Empty: it is in the same file.",
        ),
    ] = ""
    webhook_address: Annotated[
        str, Setting(Checked("IP address", ip_address), "The address on which the webhook listens.")
    ] = "0.0.0.0"  # noqa: S104
    webhook_port: Annotated[int, Setting(PORT, "The port on which the webhook listens. 0: any free one.")] = 8443
    webhook_patience: Annotated[
        timedelta,
        Setting(
            Duration(zero="not at all", most=timedelta(seconds=10)),
            "How long the webhook waits for a run that it does not know yet. Less than the `timeoutSeconds` of its "
            "configuration.",
        ),
    ] = timedelta(seconds=2)


def coscheduling_contradictions(chosen: CoschedulingSettings, *, runs: bool, served: bool) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason, to follow the key's name. `runs`:
    whether the controller does; `served`: whether the section `webhook` says where the webhook is.
    """
    if runs and not chosen.image:
        yield (
            "coscheduling.image",
            "must be set when run.controllers names coscheduling: it is the image that placeholders run",
        )
    if chosen.webhook_key and not chosen.webhook_certificate:
        yield "coscheduling.webhookKey", "is set without coscheduling.webhookCertificate"
    if served and chosen.webhook_certificate:
        yield (
            "coscheduling.webhookCertificate",
            "is set beside webhook.certificate: one webhook is served, where the section webhook says",
        )
