"""Every setting of the service: its name, type, default, rule and one line of explanation. The only place that lists
them.

The field `worker_lost_timeout` of the section `multikueue` is `multikueue.workerLostTimeout` in a file and
`CONTROLPLANE_MULTIKUEUE_WORKER_LOST_TIMEOUT` in the environment; no spelling is written down twice. Sections and
defaults that Kueue has as well carry Kueue's names and values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, get_args

import msgspec
from msgspec.structs import FieldInfo

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.custom import parse
from controlplane.settings.candidates import Candidates, candidate_contradictions
from controlplane.settings.coscheduling import CoschedulingSettings, coscheduling_contradictions
from controlplane.settings.listening import ListeningPlace, port_contradictions
from controlplane.settings.multikueue import KUEUES_DISPATCHERS, OWN_DISPATCHERS, MultiKueue
from controlplane.settings.podgroups import PodGroupSettings, podgroup_contradictions
from controlplane.settings.quota import QuotaSettings, quota_contradictions
from controlplane.settings.retention import Retention
from controlplane.settings.rules import (
    Checked,
    Choice,
    Duration,
    Integer,
    Items,
    Names,
    Setting,
    Text,
    Url,
    ip_address,
)
from controlplane.settings.scheduler import SchedulerSettings
from controlplane.settings.secret import DatabaseUrl
from controlplane.settings.tracing import TracingSettings
from controlplane.settings.web import WebSettings, web_contradictions
from controlplane.settings.words import FILE, LOG_NAME, NAMESPACE, PORT
from controlplane.values import Value

PREFIX = "CONTROLPLANE_"
CONTROLLERS = ("multikueue", "candidates", "podgroups", "coscheduling")
"""What `controlplane run` can host."""

REDACTED = ("args", "command", "script", "params.value", "entrypoint", "runtimeEnvYAML")
"""What the log leaves out of bodies unless a setting says otherwise: command lines and parameters hold tokens as often
as variables do."""

_FINITE = 1_000_000


class DatabaseSettings(Value, rename="camel"):
    """The PostgreSQL database that holds the log."""

    url: Annotated[
        DatabaseUrl, Setting(Url(), "The PostgreSQL database of the log. A secret: shown with its password masked.")
    ] = DatabaseUrl()
    log: Annotated[
        str,
        Setting(
            LOG_NAME,
            "The name of the log in that database. Several control planes may share a database, each with a log of "
            "its own.",
        ),
    ] = "main"
    role: Annotated[
        str,
        Setting(
            Text(what="the name of a role", pattern=r"[^\x00-\x1f]+", longest=63, empty=True),
            "The role that the service takes on after the login (`SET ROLE`). Empty: it stays the login's own.",
        ),
    ] = ""


class RunSettings(Value, rename="camel"):
    """What `controlplane run` does."""

    controllers: Annotated[
        tuple[str, ...],
        Setting(
            Names(CONTROLLERS),
            "Which controllers run, in one log: `multikueue` dispatches Workloads, `candidates` places pods on other "
            "clusters, `podgroups` puts pods of this cluster into PodGroups, `coscheduling` keeps the pods of a "
            "PipelineRun on one node.",
        ),
    ] = ("multikueue",)


class Management(Value, rename="camel"):
    """The way to the management cluster."""

    kubeconfig: Annotated[
        str,
        Setting(
            FILE,
            "The kubeconfig of the management cluster. Empty: the service account of the pod.",
        ),
    ] = ""
    context: Annotated[
        str,
        Setting(
            Text(what="the name of a context", empty=True), "The context in that kubeconfig. Empty: its current one."
        ),
    ] = ""


_QPS = Setting(Integer(least=1, most=_FINITE), "Requests a second, on average, to one API server.")
_BURST = Setting(Integer(least=1, most=_FINITE), "Requests that may be made at once after a quiet time.")
_CONCURRENCY = Setting(Integer(least=1, most=10_000), "Requests under way at the same time.")


class Budget(Value, rename="camel"):
    """How much of one API server we may use. The defaults are those of a worker."""

    qps: Annotated[int, _QPS] = 200
    burst: Annotated[int, _BURST] = 400
    concurrency: Annotated[int, _CONCURRENCY] = 32


class Budgets(Value, rename="camel"):
    """The budgets of the management cluster and of each worker cluster."""

    management: Budget = Budget(qps=300, burst=500, concurrency=64)
    worker: Budget = Budget()


class ClusterSettings(Value, rename="camel"):
    """How a lost connection is noticed."""

    probe_interval: Annotated[
        timedelta, Setting(Duration(), "How often each cluster is asked whether it is there.")
    ] = timedelta(seconds=10)
    probe_timeout: Annotated[timedelta, Setting(Duration(), "How long that question may take.")] = timedelta(seconds=5)
    suspect_grace: Annotated[
        timedelta,
        Setting(
            Duration(zero="the second silence is a loss"),
            "For how long a cluster that does not answer is only suspected. It is asked every second then.",
        ),
    ] = timedelta(seconds=10)
    mass_outage_percent: Annotated[
        int,
        Setting(
            Integer(least=1, most=100),
            "When more than this share of the workers is lost together, of two only both, nothing is taken from them: "
            "it may be us. 100: never.",
        ),
    ] = 50
    watch_inactivity: Annotated[
        timedelta,
        Setting(Duration(), "A watch on which nothing, not even a bookmark, has come for so long is opened anew."),
    ] = timedelta(minutes=3)  # on a quiet kind kube-apiserver 1.36 sends the first bookmark after two minutes


class Http(Value, rename="camel"):
    """Where /metrics, /healthz and /readyz are served."""

    address: Annotated[str, Setting(Checked("IP address", ip_address), "The address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[int, Setting(PORT, "The port to listen on. 0: any free one.")] = 8080


class WebhookSettings(Value, rename="camel"):
    """Where the admission webhook is served: jobs are made ours at `/mutate/multikueue`, pods that ask for it by a
    label are sent to other clusters at `/mutate/candidates`, and what a PipelineRun starts is placed at
    `/mutate/coscheduling`, as far as the controllers run that answer."""

    certificate: Annotated[
        str,
        Setting(
            FILE,
            "The certificate (PEM) with which the admission webhook is served, read anew when it changes. Empty: "
            "there is no webhook.",
        ),
    ] = ""
    key: Annotated[str, Setting(FILE, "The private key (PEM) of that certificate. Empty: it is in the same file.")] = ""
    address: Annotated[str, Setting(Checked("IP address", ip_address), "The address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[int, Setting(PORT, "The port to listen on. 0: any free one.")] = 8443


class LogSettings(Value, rename="camel"):
    """The service's own messages on stderr, and what the log of events leaves out."""

    level: Annotated[
        str, Setting(Choice(("debug", "info", "warning", "error")), "The least important message to write.")
    ] = "info"
    format: Annotated[str, Setting(Choice(("json", "console")), "One JSON object a line, or text for people.")] = "json"
    redact: Annotated[
        tuple[str, ...],
        Setting(
            Items("field paths, such as `args` or `template.spec.volumes`", r"[^.\s,]+(\.[^.\s,]+)*", 253),
            "What the database never gets of jobs and pods: fields, by the end of their path. The values of `env` are "
            "left out in any case, and so are annotations that decide nothing. Copies on workers have all of it.",
        ),
    ] = REDACTED
    snapshot_every: Annotated[
        int,
        Setting(
            Integer(least=0, most=_FINITE),
            "After so many events what was folded of the log is kept in the database, so that a process that starts "
            "reads what came after it. 0: never; a process that starts reads the whole log.",
        ),
    ] = 50_000
    read_models_after: Annotated[
        timedelta,
        Setting(
            Duration(zero="never", most=timedelta(days=30)),
            "So long after its last event, what the views `runs`, `workload_phases`, `placements`, `pending_reasons` "
            "and `effects` say of a Workload that is over is kept in a table, so that a month of the fleet is quickly "
            "read. 0: never.",
        ),
    ] = timedelta(minutes=10)
    retention: Retention = Retention()


class LeaderSettings(Value, rename="camel"):
    """The election of the one replica that writes."""

    identity: Annotated[
        str,
        Setting(
            Text(what="text without spaces", pattern=r"\S+"),
            "The name under which this replica leads.",
            default="host name, `_`, process id",
        ),
    ] = ""
    lease_namespace: Annotated[
        str,
        Setting(
            Text(what=NAMESPACE.what, pattern=NAMESPACE.pattern, longest=NAMESPACE.longest, empty=True),
            "The namespace of the Leases by which other logs are kept away: on the management cluster from dispatching "
            "it as well, on a scheduler's cluster from its profiles and Candidates; the same for all services and "
            "schedulers of a cluster. Empty: no Leases.",
        ),
    ] = "kube-system"


class Settings(Value, rename="camel"):
    """All settings of the service. `Settings()` holds the defaults, and no identity: `load` gives one."""

    database: DatabaseSettings = DatabaseSettings()
    run: RunSettings = RunSettings()
    multikueue: MultiKueue = MultiKueue()
    quota: QuotaSettings = QuotaSettings()
    candidates: Candidates = Candidates()
    scheduler: SchedulerSettings = SchedulerSettings()
    podgroups: PodGroupSettings = PodGroupSettings()
    coscheduling: CoschedulingSettings = CoschedulingSettings()
    management: Management = Management()
    budgets: Budgets = Budgets()
    clusters: ClusterSettings = ClusterSettings()
    http: Http = Http()
    webhook: WebhookSettings = WebhookSettings()
    web: WebSettings = WebSettings()
    tracing: TracingSettings = TracingSettings()
    log: LogSettings = LogSettings()
    leader: LeaderSettings = LeaderSettings()

    @property
    def keeps_to_preemption_gates(self) -> bool:
        """Whether Workloads that have closed gates preempt nobody, where this service reserves quota."""
        return self.multikueue.orchestrated_preemption == "yes"

    def orchestrating(self, *, preemption: bool) -> Settings:
        """Return the settings with preemption on workers orchestrated, or not."""
        dispatch = msgspec.structs.replace(self.multikueue, orchestrated_preemption="yes" if preemption else "no")
        return msgspec.structs.replace(self, multikueue=dispatch)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting, found by walking the sections: where it is in `Settings`, and what was said about it.

    `path` is the way through the Python attributes; `key` is the name in a file (`multikueue.gcInterval`).
    """

    path: tuple[str, ...]
    key: str
    setting: Setting

    @property
    def variable(self) -> str:
        """The one environment variable of this setting."""
        return PREFIX + "_".join(self.path).upper()

    def of(self, settings: Settings) -> Any:
        """Return the value of this setting."""
        value: Any = settings
        for name in self.path:
            value = getattr(value, name)
        return value


def leaves(section: type[msgspec.Struct] = Settings, path: tuple[str, ...] = (), key: str = "") -> Iterator[Leaf]:
    """Yield every setting in the order in which it is written above."""
    for field in msgspec.structs.fields(section):
        here, name = (*path, field.name), f"{key}{field.encode_name}"
        said = _said(field)
        if said is not None:
            yield Leaf(here, name, said)
        else:
            yield from leaves(field.type, here, f"{name}.")


def _said(field: FieldInfo) -> Setting | None:
    return next((note for note in get_args(field.type)[1:] if isinstance(note, Setting)), None)


LEAVES: tuple[Leaf, ...] = tuple(leaves())
SECTIONS = frozenset(leaf.key.rpartition(".")[0] for leaf in LEAVES) | {"budgets"}


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason, to follow the key's name."""
    on = settings.run.controllers
    yield from candidate_contradictions(settings.candidates, runs="candidates" in on)
    yield from _dispatch_contradictions(settings.multikueue)
    waiting = any(name == "pod" or JOB_KINDS[name].suspends_pods for name in settings.multikueue.kinds)
    if settings.quota.builtin and waiting and settings.multikueue.pod_gate == "kueue":
        yield (
            "multikueue.podGate",
            (
                "must be own when quota.mode is builtin and multikueue.kinds names pod, or a kind whose pods wait: "
                "Kueue's gate is taken from all that are admitted"
            ),
        )
    if settings.quota.builtin and settings.multikueue.recorded_workloads == "own":
        yield (
            "multikueue.recordedWorkloads",
            "must be all when quota.mode is builtin: who decides on quota decides about the Workloads of all queues",
        )
    yield from quota_contradictions(settings.quota)
    served = bool(settings.webhook.certificate)
    yield from coscheduling_contradictions(settings.coscheduling, runs="coscheduling" in on, served=served)
    yield from podgroup_contradictions(settings.podgroups, runs="podgroups" in on)
    if settings.webhook.key and not served:
        yield "webhook.key", "is set without webhook.certificate"
    yield from web_contradictions(settings.web)
    yield from port_contradictions(_listens(settings))


def _listens(settings: Settings) -> Iterator[ListeningPlace]:
    """Yield where `controlplane run` listens."""
    yield ListeningPlace("http.port", settings.http.address, settings.http.port)
    if settings.webhook.certificate:
        yield ListeningPlace("webhook.port", settings.webhook.address, settings.webhook.port)
    elif "coscheduling" in settings.run.controllers and settings.coscheduling.webhook_certificate:
        own = settings.coscheduling
        yield ListeningPlace("coscheduling.webhookPort", own.webhook_address, own.webhook_port)
    for key, one in (
        ("quota.visibility.port", settings.quota.visibility),
        ("candidates.virtualNodes.port", settings.candidates.virtual_nodes),
    ):
        if one.certificate:
            yield ListeningPlace(key, one.address, one.port)
    if settings.web.serve == "yes":
        yield ListeningPlace("web.port", settings.web.address, settings.web.port)


def _dispatch_contradictions(chosen: MultiKueue) -> Iterator[tuple[str, str]]:
    dispatcher = chosen.dispatcher_name
    if dispatcher.startswith(KUEUES_DISPATCHERS) and dispatcher.removeprefix(KUEUES_DISPATCHERS) not in OWN_DISPATCHERS:
        yield (
            "multikueue.dispatcherName",
            (
                "is none of Kueue's dispatchers, which are "
                f"{' and '.join(KUEUES_DISPATCHERS + one for one in OWN_DISPATCHERS)}"
            ),
        )
    if not chosen.kinds and not chosen.external_frameworks:
        yield "multikueue.kinds", "must name at least one, or multikueue.externalFrameworks must"
    own = {one.kind.name: one.integration for one in JOB_KINDS.values()}
    named = [parse(framework).name for framework in chosen.external_frameworks]
    for name in sorted(set(named)):
        if own.get(name) in chosen.kinds:
            yield (
                "multikueue.externalFrameworks",
                f'names a kind that is known as "{own[name]}", which multikueue.kinds names: take it out here',
            )
        elif named.count(name) > 1:
            yield "multikueue.externalFrameworks", f"names {name} twice: one version of a kind can be dispatched"
