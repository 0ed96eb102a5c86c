"""The settings of the controllers of one's own cluster: what goes with what, and what decisions are made of them."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.connectivity.phrases import PHRASES
from controlplane.controllers.coscheduling import hosting as coscheduling
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.hosts import hosted
from controlplane.controllers.multikueue.hosting import in_force, policy_of, reading_policy
from controlplane.controllers.podgroups import hosting as podgroups
from controlplane.settings import Settings
from controlplane.settings.access_providers import AccessProvider, ExecConfig
from controlplane.settings.coscheduling import MODES, CoschedulingSettings
from controlplane.settings.load import SettingsError, load
from controlplane.settings.model import RunSettings, contradictions
from controlplane.settings.multikueue import ClusterProfiles, MultiKueue
from controlplane.settings.podgroups import PodGroupSettings
from controlplane.settings.quota import QuotaSettings, VisibilitySettings


def settings(
    *controllers: str, groups: PodGroupSettings | None = None, runs: CoschedulingSettings | None = None
) -> Settings:
    return msgspec.structs.replace(
        Settings(),
        run=RunSettings(controllers=controllers),
        podgroups=groups or PodGroupSettings(),
        coscheduling=runs or CoschedulingSettings(),
    )


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (settings("multikueue"), []),
        (settings("coscheduling"), ["coscheduling.image"]),
        (settings("coscheduling", runs=CoschedulingSettings(image="nop")), []),
        (settings("podgroups", groups=PodGroupSettings(scheduler_names=())), ["podgroups.schedulerNames"]),
        (settings("multikueue", runs=CoschedulingSettings(webhook_key="k")), ["coscheduling.webhookKey"]),
    ],
)
def test_contradictions_name_the_key(wanted: Settings, keys: list[str]) -> None:
    assert [key for key, _ in contradictions(wanted)] == keys


@pytest.mark.parametrize(
    ("mode", "served", "keys"),
    [
        ("kueue", VisibilitySettings(), []),
        ("builtin", VisibilitySettings(certificate="tls.crt", key="tls.key"), []),
        ("kueue", VisibilitySettings(certificate="tls.crt"), ["quota.visibility.certificate"]),
        ("builtin", VisibilitySettings(key="tls.key"), ["quota.visibility.key"]),
    ],
)
def test_the_visibility_api_is_served_by_who_decides_on_quota(
    mode: str, served: VisibilitySettings, keys: list[str]
) -> None:
    quota = QuotaSettings(mode=mode, visibility=served)
    found = dict(contradictions(msgspec.structs.replace(settings("multikueue"), quota=quota)))
    assert list(found) == keys
    if mode == "kueue" and keys:
        assert "quota.mode is not builtin" in found["quota.visibility.certificate"]


def test_every_mode_is_one_or_the_flags() -> None:
    assert set(MODES) == {"flag", *(mode.value for mode in Mode)}
    assert coscheduling.policy_of(settings(runs=CoschedulingSettings(mode="flag"))).mode is None
    assert coscheduling.policy_of(settings(runs=CoschedulingSettings(mode="isolate-pipelinerun"))).mode is Mode.ISOLATE


def test_decisions_depend_on_what_was_set() -> None:
    chosen = PodGroupSettings(
        scheduler_names=("a", "b"),
        block_owner_deletion="no",
        inqueue_limit=timedelta(minutes=3),
        overcommit_percent=150,
    )
    policy = podgroups.policy_of(settings(groups=chosen))
    assert (policy.schedulers, policy.block_owner_deletion) == (("a", "b"), False)
    assert (policy.inqueue_limit, policy.overcommit) == (timedelta(minutes=3), 1.5)


def test_a_controller_that_is_off_adds_nothing() -> None:
    assert [one.registration.name for one in hosted(settings("multikueue"))] == ["multikueue"]
    (alone,) = hosted(settings())
    assert (alone.home, alone.workers, alone.follows) == ((), (), False)


def test_the_capacity_is_summed_up_from_nodes_and_all_pods() -> None:
    found = podgroups.host(settings("podgroups"))
    watched = [spec for one in found for spec in one.home]
    watched_for = {spec.kind.name: spec.field_selector for spec in watched if spec.kind.name in ("nodes", "pods")}
    assert watched_for == {"nodes": "", "pods": ""}
    assert [one.registration.name for one in found] == ["podgroups", "capacity"]


def test_a_capacity_that_nobody_records_is_refused_with_what_to_do() -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"CONTROLPLANE_PODGROUPS_CAPACITY": "scheduler"})
    assert "podgroups.capacity" in str(refused.value)
    assert "leave the setting out, or write nodes" in str(refused.value)


def test_whatever_is_not_in_view_is_said_of_every_controller() -> None:
    runs = CoschedulingSettings(image="nop")
    found = HostedControllers(settings("podgroups", "coscheduling", runs=runs))
    assert found.unseen == ("podgroups does not see all that it needs; coscheduling does not see all that it needs")


def test_a_log_of_a_later_version_is_read_although_it_dispatched_other_kinds() -> None:
    said = in_force(policy_of(settings("multikueue")), settings("multikueue"))
    later = msgspec.structs.replace(
        said, kinds=[*said.kinds, "v1, Kind=ReplicationController", "apps/v1, Kind=DaemonSet"]
    )
    read = reading_policy(settings("multikueue"), later)
    assert read.awaited == {"jobs.batch", "jobsets.jobset.x-k8s.io"}


EXEC = ExecConfig(command="/bin/login", api_version="client.authentication.k8s.io/v1", args=("--secret",))


@pytest.mark.parametrize(
    ("chosen", "fields", "words"),
    [
        (MultiKueue(), (False, False, []), ""),
        (MultiKueue(quota_automation="yes"), (True, False, []), "; quota is automated"),
        (
            MultiKueue(cluster_profile=ClusterProfiles(enabled="yes")),
            (False, True, []),
            "; ClusterProfiles are followed",
        ),
        (
            MultiKueue(
                quota_automation="yes", cluster_profile=ClusterProfiles(access_providers=(AccessProvider("gke", EXEC),))
            ),
            (True, True, ["gke"]),
            "; quota is automated; ClusterProfiles are followed (logged in by gke)",
        ),
    ],
)
def test_what_is_followed_beside_the_policy_is_said(
    chosen: MultiKueue, fields: tuple[bool, bool, list[str]], words: str
) -> None:
    on = msgspec.structs.replace(settings("multikueue"), multikueue=chosen)
    said = in_force(policy_of(on), on)
    assert (said.quota_automation, said.cluster_profiles, said.access_providers) == fields
    assert PHRASES[PolicyInForce](said).endswith(f"jobset.x-k8s.io/v1alpha2, Kind=JobSet{words}")
    assert "secret" not in repr(said)
    other = msgspec.structs.replace(settings("podgroups"), multikueue=chosen)
    off = in_force(policy_of(other), other)
    assert (off.quota_automation, off.cluster_profiles, off.access_providers) == (False, False, [])
