"""Defaults ← file ← environment ← options, with every problem named at once, its place, and the nearest known name."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from controlplane.controllers.candidates.source.hosting import policy_of as candidate_policy
from controlplane.controllers.candidates.source.hosting import targets_of as candidate_targets
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.settings import LEAVES, SettingsError, load, plain, resolve
from tests.support.rows import each


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def problems(file: Path | None, **env: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(file, env)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return list(caught.value.problems)


def test_the_defaults_are_kueues() -> None:
    settings = load(None, {})
    assert settings.multikueue.origin == "multikueue"
    assert settings.multikueue.gc_interval == timedelta(minutes=1)
    assert settings.multikueue.worker_lost_timeout == timedelta(minutes=15)
    assert settings.multikueue.controller_name == "kueue.x-k8s.io/multikueue"
    assert settings.multikueue.kinds == ("batch/job", "jobset.x-k8s.io/jobset")
    assert (settings.budgets.management.qps, settings.budgets.management.burst) == (300, 500)
    assert (settings.budgets.worker.qps, settings.budgets.worker.concurrency) == (200, 32)
    assert settings.leader.identity
    assert not settings.database.url


def test_the_later_source_wins_and_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "multikueue:\n  origin: from-file\n  gcInterval: 0\n  namespace: n\nhttp: {port: 1}\n")
    env = {"CONTROLPLANE_MULTIKUEUE_ORIGIN": "from-env", "CONTROLPLANE_HTTP_PORT": "2", "PATH": "/bin"}
    resolved = resolve(file, env, {"http.port": ("3", "--port")})
    assert resolved.settings.multikueue.origin == "from-env"
    assert resolved.settings.multikueue.gc_interval == timedelta(0)
    assert resolved.settings.http.port == 3
    assert resolved.origins["multikueue.origin"] == "CONTROLPLANE_MULTIKUEUE_ORIGIN"
    assert resolved.origins["multikueue.gcInterval"] == f"{file}:3"
    assert resolved.origins["http.port"] == "--port"
    assert resolved.origins["log.level"] == "default"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "database: {log: other}")
    assert load(None, {"CONTROLPLANE_CONFIG": str(file)}).database.log == "other"
    assert load(write(tmp_path, "# nothing"), {"CONTROLPLANE_CONFIG": "/nonexistent"}).database.log == "main"
    assert load(None, {"CONTROLPLANE_CONFIG": ""}).database.log == "main"


def test_every_setting_can_be_given_by_its_variable_and_in_a_file(tmp_path: Path) -> None:
    shown = plain(load(None, {}))
    env = {leaf.variable: _typed(shown, leaf.key) for leaf in LEAVES}
    assert len(env) == len(LEAVES)
    assert plain(load(None, env)) == shown
    assert plain(load(write(tmp_path, yaml.safe_dump(shown)), {})) == shown


def _typed(tree: dict[str, object], key: str) -> str:
    value: object = tree
    for name in key.split("."):
        assert isinstance(value, dict)
        value = value[name]
    return ",".join(value) if isinstance(value, list) else str(value)


def test_all_problems_at_once_with_their_places(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "multikueue:\n  orign: a\n  gcInterval: -1m\n  workerLostTimeout: 0\nhttp:\n  port: 99999\nmultikeue: "
        "{}\norigin: x\n",
    )
    assert problems(file, CONTROLPLANE_LOG_LEVEL="loud", CONTROLPLANE_HTTP_PROT="1") == [
        f'{file}:2: there is no setting "multikueue.orign": did you mean multikueue.origin?',
        f'{file}:7: there is no setting "multikeue": did you mean multikueue?',
        f'{file}:8: there is no setting "origin": did you mean multikueue.origin?',
        "CONTROLPLANE_HTTP_PROT: there is no such setting: did you mean CONTROLPLANE_HTTP_PORT?",
        f'{file}:3: multikueue.gcInterval must not be negative, not "-1m" (0 means off).',
        (
            f"{file}:4: multikueue.workerLostTimeout must be greater than 0, "
            'because a workload would be taken from its worker at the first lost connection, not "0".'
        ),
        f"{file}:6: http.port must be 0…65535, not 99999.",
        'CONTROLPLANE_LOG_LEVEL: log.level must be debug, info, warning or error, not "loud".',
    ]


def tenfold(begin: str, each: str) -> str:
    """Return ten items in a flow, each made of ten of the one before: 10¹⁰, written out."""
    items = [f"&a0 {begin}"]
    items += [f"&a{at} {each.format(', '.join([f'*a{at - 1}'] * 10))}" for at in range(1, 11)]
    return "".join(f"    - {item}\n" for item in items)


KINDS = f"multikueue:\n  kinds:\n{tenfold('[x]', '[{}]')}"
MERGED = f"multikueue:\n  kinds:\n{tenfold('{k: 1}', '{{<<: [{}]}}')}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", ":1: is not valid YAML"),
        ("- a", ":1: must be a mapping of sections"),
        ("http: 8080", ':1: "http" must be a section'),
        ("http:\n  port:\n", ":2: http.port has no value"),
        ("http:\n  port: 1\n  port: 2\n", ':3: "http.port" is there a second time'),
        ("http:\n  port: yes\n", ':2: http.port must be a whole number 0…65535, not "True"'),
        ("http:\n  port: 80.5\n", ":2: http.port must be a whole number"),
        ("multikueue:\n  origin: 12\n", ":2: multikueue.origin must be text: write it in quotes, not as the int 12"),
        ("multikueue:\n  gcInterval: 60\n", ":2: multikueue.gcInterval has no unit: write 60s, 60m or 60h"),
        ("multikueue:\n  kinds: []\n", ":2: multikueue.kinds must name at least one"),
        ("multikueue:\n  kinds: [batch/jobs]\n", ':2: multikueue.kinds does not know "batch/jobs"'),
        ("multikueue:\n  kinds: [batch/job, batch/job]\n", ":2: multikueue.kinds names one twice"),
        ("multikueue: &a\n  kinds: &b [*b]\n", ":2: multikueue.kinds has a value that cannot be read"),
        (
            'quota:\n  managedJobsNamespaceSelector: "team in (a"\n',
            ":2: quota.managedJobsNamespaceSelector 'team in (a' is not a label selector such as",
        ),
        ('webhook:\n  certificate: "a\\0b"\n', ":2: webhook.certificate must be the path of a file, not"),
        ("a: \x00", ": is not valid YAML"),
        ("log:\n  level: !!int \n", ":2: log.level has a value that cannot be read"),
        ("log:\n  level: !!bool maybe\n", ":2: log.level has a value that cannot be read"),
        ("log: " + "[" * 3000, ": is nested too deep"),
        (KINDS, ":3: multikueue.kinds is too large once its aliases are written out"),
        (MERGED, ":3: multikueue.kinds has a value that cannot be read"),
        ("? [a]\n: 1\n", ":1: there is no setting"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path, text)
    (said,) = problems(file)
    assert said.startswith(f"{file}{problem}")


@pytest.mark.parametrize("said", ["yes", "true", "on", '"yes"', '"True"'])
def test_yes_may_be_written_as_yaml_does(tmp_path: Path, said: str) -> None:
    file = write(tmp_path, f"quota:\n  fairSharing:\n    enable: {said}\nmultikueue:\n  pipelineRunFilter: off\n")
    found = load(file, {"CONTROLPLANE_QUOTA_ADMISSION_FAIR_SHARING_ENABLE": "true"})
    assert (found.quota.fair_sharing.enable, found.quota.admission_fair_sharing.enable) == ("yes", "yes")
    assert found.multikueue.pipeline_run_filter == "off"


@pytest.mark.parametrize("key", ["multikueue.pipelineRunFilter: on", "candidates.podIps: yes"])
def test_a_boolean_where_it_is_no_word_is_refused(tmp_path: Path, key: str) -> None:
    section, _, rest = key.partition(".")
    (said,) = problems(write(tmp_path, f"{section}:\n  {rest}\n"))
    assert "write it in quotes, not as the bool True" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("webhook:\n  certificate: c\n  port: 8080\n", ["webhook.port is 8080, as is http.port"]),
        ("webhook:\n  certificate: c\n  port: 8080\nhttp:\n  address: 127.0.0.1\n", ["webhook.port is 8080"]),
        ("webhook:\n  certificate: c\n  port: 8080\n  address: 127.0.0.2\nhttp:\n  address: 127.0.0.1\n", []),
        ('webhook:\n  certificate: c\n  port: 8080\n  address: "::"\n', []),
        ("webhook:\n  port: 8080\n", []),
        ("webhook:\n  certificate: c\n  port: 0\nhttp:\n  port: 0\n", []),
        ("web:\n  serve: yes\n  port: 8080\n", ["web.port is 8080, as is http.port"]),
        ("web:\n  port: 8080\n", []),
        (
            "quota:\n  mode: builtin\n  visibility:\n    certificate: c\nwebhook:\n  certificate: c\n  port: 8082\n",
            ["quota.visibility.port is 8082, as is webhook.port"],
        ),
    ],
)
def test_what_one_process_serves_has_ports_of_its_own(tmp_path: Path, text: str, said: list[str]) -> None:
    """Else it would say of itself that another program listens there already."""
    file = write(tmp_path, text)
    if not said:
        load(file, {})
        return
    for one, expected in zip(problems(file), said, strict=True):
        assert expected in one


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.yaml") == [f"{tmp_path / 'none.yaml'}: there is no such file."]
    assert problems(tmp_path) == [f"{tmp_path}: cannot be read: is a directory."]
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert problems(tmp_path / "binary") == [f"{tmp_path / 'binary'}: is not UTF-8 text."]


@each(
    ("variable", "value", "reason"),
    [
        ("MULTIKUEUE_ORIGIN", "-a", "must be a valid label value"),
        ("MULTIKUEUE_ORIGIN", "a" * 64, "at most 63 characters"),
        ("MULTIKUEUE_NAMESPACE", "Kueue", "must be the name of a namespace"),
        ("MULTIKUEUE_CONTROLLER_NAME", "multikueue", "a domain name and a path"),
        ("MULTIKUEUE_KUBECONFIG_PREFIX", "/etc/kubeconfigs", 'ends in "/"'),
        ("MULTIKUEUE_KUBECONFIG_PREFIX", "/etc/../root/", 'has no ".."'),
        ("MULTIKUEUE_WORKER_LOST_TIMEOUT", "-1s", "must be greater than 0, because"),
        ("MULTIKUEUE_STATUS_INTERVAL", "-1s", "must not be negative"),
        ("CLUSTERS_PROBE_TIMEOUT", "0", "must be greater than 0"),
        ("BUDGETS_WORKER_QPS", "0", "must be 1…1000000"),
        ("BUDGETS_WORKER_BURST", "ten", "must be a whole number"),
        ("HTTP_ADDRESS", "localhost", "must be an IP address"),
        ("HTTP_PORT", "-1", "must be 0…65535"),
        ("LEADER_IDENTITY", "a b", "text without spaces"),
        ("DATABASE_LOG", "Main", "lower-case letters"),
    ],
)
def test_values_out_of_range(variable: str, value: str, reason: str) -> None:
    (said,) = problems(None, **{f"CONTROLPLANE_{variable}": value})
    assert said.startswith(f"CONTROLPLANE_{variable}: ")
    assert reason in said


def test_an_empty_origin_is_refused_in_a_file(tmp_path: Path) -> None:
    (said,) = problems(write(tmp_path, "multikueue: {origin: ''}"))
    assert "multikueue.origin must not be empty" in said


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(None, {"CONTROLPLANE_MULTIKUEUE_ORIGIN": ""}).multikueue.origin == "multikueue"


def test_what_the_kubelet_adds_for_services_is_no_setting() -> None:
    """A Service named `controlplane` or `controlplane-http` puts such variables into every pod of its namespace."""
    links = {
        "CONTROLPLANE_SERVICE_HOST": "10.0.0.1",
        "CONTROLPLANE_SERVICE_PORT": "80",
        "CONTROLPLANE_SERVICE_PORT_HTTP": "80",
        "CONTROLPLANE_PORT": "tcp://10.0.0.1:80",
        "CONTROLPLANE_PORT_80_TCP": "tcp://10.0.0.1:80",
        "CONTROLPLANE_PORT_80_TCP_PROTO": "tcp",
        "CONTROLPLANE_PORT_80_TCP_ADDR": "10.0.0.1",
        "CONTROLPLANE_HTTP_SERVICE_HOST": "10.0.0.1",
        "CONTROLPLANE_HTTP_PORT": "tcp://10.0.0.1:80",
    }
    assert load(None, links).http.port == 8080


def test_variables_of_the_program_and_of_the_tests_are_no_settings() -> None:
    load(None, {"CONTROLPLANE_DEBUG": "1", "CONTROLPLANE_TEST_PG": "embedded"})


def test_pods_that_are_admitted_here_need_the_gate_that_stays() -> None:
    pods = {"CONTROLPLANE_QUOTA_MODE": "builtin", "CONTROLPLANE_MULTIKUEUE_POD_GATE": "kueue"}
    assert load(None, pods).multikueue.pod_gate == "kueue"
    (said,) = problems(None, **pods, CONTROLPLANE_MULTIKUEUE_KINDS="batch/job,pod")
    assert said.startswith(
        "CONTROLPLANE_MULTIKUEUE_POD_GATE: multikueue.podGate must be own when quota.mode is builtin"
    )


def test_controllers_are_known_and_complete() -> None:
    assert load(None, {}).run.controllers == ("multikueue",)
    (said,) = problems(None, CONTROLPLANE_RUN_CONTROLLERS="multikueue,candidates")
    assert said == (
        "candidates.cluster must be set when run.controllers names candidates: it is the name that targets invite."
    )
    (said,) = problems(None, CONTROLPLANE_RUN_CONTROLLERS="candidate")
    assert 'run.controllers does not know "candidate": known are multikueue, candidates' in said


def test_candidates_are_bounded_and_do_not_contradict_each_other(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "candidates:\n  maxWait: 30s\n  minCandidates: 0\n  namespaces: [Physics]\n  targets: [a, 'b:x']\n  "
        "placement: best\n",
    )
    said = problems(file)
    assert [problem.split(" ")[1] for problem in said] == [
        "candidates.namespaces",
        "candidates.targets",
        "candidates.placement",
        "candidates.minCandidates",
        "candidates.maxWait",
    ]
    assert "must be at most 20s" in said[-1]
    (twice,) = problems(write(tmp_path, "candidates: {targets: [a, 'a:1']}"))
    assert twice.endswith('settings.yaml:1: candidates.targets names "a" twice.')
    (skew,) = problems(write(tmp_path, "candidates: {lease: 5s, clockSkew: 5s}"))
    assert "candidates.clockSkew must be less than candidates.lease" in skew


def test_targets_have_tiers() -> None:
    env = {"CONTROLPLANE_CANDIDATES_TARGETS": "own,cloud:1", "CONTROLPLANE_CANDIDATES_NAMESPACES": "*"}
    settings = load(None, env)
    assert [(target.name, target.tier) for target in candidate_targets(settings)] == [("own", 0), ("cloud", 1)]
    assert candidate_policy(settings).allows("anywhere")


def test_a_dispatcher_that_kueue_does_not_have_is_refused_by_name() -> None:
    variable = "CONTROLPLANE_MULTIKUEUE_DISPATCHER_NAME"
    with pytest.raises(SettingsError) as refused:
        load(None, {variable: "kueue.x-k8s.io/multikueue-dispatcher-incrmental"})
    assert str(refused.value) == (
        f"{variable}: multikueue.dispatcherName is none of Kueue's dispatchers, which are "
        "kueue.x-k8s.io/multikueue-dispatcher-all-at-once and kueue.x-k8s.io/multikueue-dispatcher-incremental."
    )
    assert load(None, {variable: "example.com/mine"}).multikueue.dispatcher_name == "example.com/mine"


def test_an_external_kind_without_a_version_is_refused_with_what_it_has_to_be_like() -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"CONTROLPLANE_MULTIKUEUE_EXTERNAL_FRAMEWORKS": "Render.v1.example.com,Render.example"})
    assert "multikueue.externalFrameworks" in str(refused.value)
    assert "Kind.version.group" in str(refused.value)
    assert "Render.example" in str(refused.value)


def test_a_known_kind_that_is_not_dispatched_otherwise_may_be_an_external_framework() -> None:
    given = {"CONTROLPLANE_MULTIKUEUE_EXTERNAL_FRAMEWORKS": "RayCluster.v1.ray.io"}
    assert load(None, given).multikueue.external_frameworks == ("RayCluster.v1.ray.io",)


def test_external_frameworks_may_be_all_that_is_dispatched(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("multikueue:\n  kinds: []\n  externalFrameworks: [RayCluster.v1.ray.io]\n")
    assert list(policy_of(load(file, {})).adapters) == ["ray.io/v1, Kind=RayCluster"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("JobSet.v1alpha2.jobset.x-k8s.io", 'names a kind that is known as "jobset.x-k8s.io/jobset"'),
        ("Render.v1.example.com,Render.v2.example.com", "names renders.example.com twice"),
    ],
)
def test_a_kind_is_dispatched_in_one_way_only(given: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"CONTROLPLANE_MULTIKUEUE_EXTERNAL_FRAMEWORKS": given})
    assert "multikueue.externalFrameworks" in str(refused.value)
    assert said in str(refused.value)
