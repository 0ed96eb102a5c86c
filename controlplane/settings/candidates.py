"""The settings of a cluster that is a source of candidate pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from controlplane.settings.rules import (
    DNS_LABEL,
    DNS_NAME,
    Checked,
    Choice,
    Duration,
    Integer,
    Items,
    Setting,
    Text,
    ip_address,
)
from controlplane.settings.words import CLOCK_SKEW, EXECUTION_POLICY, FILE, LABEL_VALUE, SCHEDULER_NAME, YES_NO
from controlplane.values import Value

_TARGET = rf"{DNS_NAME}(:[0-9]{{1,2}})?"


class VirtualNodeSettings(Value, rename="camel"):
    """Whether this cluster has a Node for each target, to which the pods that run there are bound."""

    enabled: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether source pods are bound to a virtual Node of their target: Services reach them where `podIps` is "
            "`show`, and `kubectl get nodes` shows the targets. Needs `deploy/candidates/virtual-nodes`.",
        ),
    ] = "no"
    certificate: Annotated[
        str,
        Setting(
            FILE,
            "The certificate (PEM) with which the kubelet API of virtual Nodes is served, for `kubectl logs`, `exec`, "
            "`attach` and `port-forward`; read anew when it changes. Empty: it is not served.",
        ),
    ] = ""
    key: Annotated[str, Setting(FILE, "The private key (PEM) of that certificate. Empty: it is in the same file.")] = ""
    client_authority: Annotated[
        str,
        Setting(
            FILE,
            "The authority (PEM) of the certificate with which the API server asks kubelets "
            "(`--kubelet-client-certificate`): in most clusters the one that a pod finds with its token. Others show "
            "a token.",
        ),
    ] = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    node_address: Annotated[
        str,
        Setting(
            Text(what="an IP address or a DNS name", pattern=r"[0-9A-Za-z][-0-9A-Za-z.:]*", longest=253, empty=True),
            "Where the API server reaches this process: what virtual Nodes give as their address. Its own pod's IP, "
            "since the process that leads answers. Needed with `certificate`.",
        ),
    ] = ""
    address: Annotated[str, Setting(Checked("IP address", ip_address), "The address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[int, Setting(Integer(least=1, most=65_535), "The port to listen on, which virtual Nodes name.")] = (
        10250
    )

    @property
    def on(self) -> bool:
        """Whether there are virtual Nodes."""
        return self.enabled == "yes"


class Candidates(Value, rename="camel"):
    """How pods that ask for it are placed on other clusters; used if `run.controllers` names `candidates`."""

    cluster: Annotated[
        str,
        Setting(
            replace(LABEL_VALUE, empty=True),
            "This cluster's name, as the CandidateSources of its targets spell it. Needed if `run.controllers` names "
            "`candidates`. Never give it to another cluster. A Candidate, and a copy of what its pod names, says by its "
            "annotation `candidates.controlplane.dev/source-uid` which cluster made it; what another made is left alone.",
        ),
    ] = ""
    scheduler_name: Annotated[
        str,
        Setting(
            SCHEDULER_NAME,
            "Pods with this `spec.schedulerName` are placed on other clusters; no others are watched.",
        ),
    ] = "controlplane-candidates"
    namespaces: Annotated[
        tuple[str, ...],
        Setting(
            Items("names of namespaces, or `*`", rf"{DNS_LABEL}|\*", 63),
            "The namespaces whose pods may be placed on other clusters. `*`: all of them.",
        ),
    ] = ()
    namespace_selector: Annotated[
        str,
        Setting(
            Text(what="a label selector", pattern=r"[^\x00-\x1f]+", empty=True),
            "Namespaces with these labels may send pods too. Empty: only `namespaces` counts.",
        ),
    ] = ""
    targets: Annotated[
        tuple[str, ...],
        Setting(
            Items("names of MultiKueueClusters, each with `:TIER` or not", _TARGET, 256),
            "The clusters that every allowed namespace may use, beside the CandidateTargets that are in it. Tier 0, "
            "the default, is preferred to 1, as one's own machines to a cloud's.",
        ),
    ] = ()
    placement: Annotated[
        str,
        Setting(
            Choice(("first-ready", "best-of")),
            "Which target gets a pod: the first that has a node for it, or the one with the best score among those "
            "that answer in time.",
        ),
    ] = "first-ready"
    min_candidates: Annotated[
        int, Setting(Integer(least=1, most=100), "How many targets have to be ready before `best-of` chooses.")
    ] = 2
    max_wait: Annotated[
        timedelta,
        Setting(
            Duration(zero="not at all", most=timedelta(seconds=20)),
            "How long `best-of` waits for them, and a later tier for a preferred one, once a target is ready.",
        ),
    ] = timedelta(seconds=5)
    max_skew: Annotated[
        int,
        Setting(
            Integer(least=0, most=1000),
            "By how many a target may hold more pods of a workload than the target with the fewest. 0: by any number.",
        ),
    ] = 0
    lease: Annotated[
        timedelta,
        Setting(Duration(most=timedelta(minutes=5)), "How long a permit to bind holds before it is taken back."),
    ] = timedelta(seconds=30)
    room_lease: Annotated[
        timedelta,
        Setting(
            Duration(most=timedelta(minutes=30)),
            "How long a permit to preempt holds: while those who are evicted stop, no other target is permitted to "
            "evict for the same pod.",
        ),
    ] = timedelta(minutes=2)
    scale_up_wait: Annotated[
        timedelta,
        Setting(
            Duration(zero="the autoscalers of all targets add nodes at once", most=timedelta(days=1)),
            "How long the autoscaler of one target alone may add nodes for a pod that no target has a node for, "
            "before another one's may.",
        ),
    ] = timedelta(minutes=10)
    clock_skew: Annotated[
        timedelta,
        Setting(
            CLOCK_SKEW,
            "By how much the clocks of two clusters may differ, plus the time that a binding may be on its way.",
        ),
    ] = timedelta(seconds=5)
    answer_timeout: Annotated[
        timedelta,
        Setting(
            Duration(most=timedelta(minutes=10)),
            "How long a target's answer to a pod is waited for. After that its silence is a no, which the pod shows, "
            "until it answers: others may preempt, and spread is counted without it.",
        ),
    ] = timedelta(seconds=30)
    lost_after: Annotated[
        timedelta,
        Setting(
            Duration(),
            "How long a pod stays with a target that cannot be reached, or shows no candidates, before it is placed "
            "anew.",
        ),
    ] = timedelta(minutes=15)
    execution_policy: Annotated[
        str,
        Setting(
            EXECUTION_POLICY,
            "What happens to a pod whose target stays away: placed anew after `lostAfter`, or not before the old one "
            "is known to be dead.",
        ),
    ] = "at-least-once"
    gang_wait: Annotated[
        timedelta,
        Setting(
            Duration(most=timedelta(seconds=20)),
            "How long a gang that has room for all of it nowhere holds the places that it has, before it gives them "
            "back and rests.",
        ),
    ] = timedelta(seconds=15)
    gang_timeout: Annotated[
        timedelta,
        Setting(
            Duration(),
            "How long some pods of a gang run while the quorum never came together, before all are taken back.",
        ),
    ] = timedelta(minutes=5)
    pod_ips: Annotated[
        str,
        Setting(
            Choice(("hide", "show")),
            "Whether a source pod shows its delegate's addresses: only where the clusters' pod networks reach each "
            "other.",
        ),
    ] = "hide"
    virtual_nodes: VirtualNodeSettings = VirtualNodeSettings()
    follow: Annotated[
        str,
        Setting(
            YES_NO,
            "Whether the ConfigMaps and Secrets that a pod names are copied to the target that won, and removed with "
            "it.",
        ),
    ] = "yes"


def candidate_contradictions(chosen: Candidates, *, runs: bool) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason, to follow the key's name; `runs`:
    whether the controller does.
    """
    if runs and not chosen.cluster:
        yield (
            "candidates.cluster",
            "must be set when run.controllers names candidates: it is the name that targets invite",
        )
    if chosen.clock_skew >= chosen.lease:
        yield (
            "candidates.clockSkew",
            "must be less than candidates.lease, because a target keeps off the end of a lease by it",
        )
    yield from _virtual_node_contradictions(chosen.virtual_nodes)
    names = [target.partition(":")[0] for target in chosen.targets]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "candidates.targets", f'names "{name}" twice'


def _virtual_node_contradictions(chosen: VirtualNodeSettings) -> Iterator[tuple[str, str]]:
    section = "candidates.virtualNodes"
    if chosen.certificate and not chosen.on:
        yield (
            f"{section}.certificate",
            f"is set and {section}.enabled is no: without virtual Nodes nobody asks a kubelet",
        )
    if chosen.certificate and not chosen.node_address:
        yield (
            f"{section}.nodeAddress",
            (
                f"must be set with {section}.certificate: the API server asks for logs where the Nodes say; give the pod's "
                "own IP"
            ),
        )
    if chosen.certificate and not chosen.client_authority:
        yield f"{section}.clientAuthority", f"must be set with {section}.certificate: by it the API server is known"
    if chosen.key and not chosen.certificate:
        yield f"{section}.key", f"is set without {section}.certificate"
