"""The access providers of ClusterProfiles: as Kueue's configuration has them, in a file or as JSON in a variable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.settings import SettingsError, load, plain
from controlplane.settings.plain import shown
from tests.support.rows import each

VARIABLE = "CONTROLPLANE_MULTIKUEUE_CLUSTER_PROFILE_ACCESS_PROVIDERS"
V1 = "client.authentication.k8s.io/v1"
EXEC: dict[str, Any] = {"apiVersion": V1, "command": "login", "interactiveMode": "Never"}


def read(*providers: Any) -> Any:
    return load(None, {VARIABLE: json.dumps(list(providers))}).multikueue.cluster_profile


def test_what_kueue_has_in_its_configuration_is_read() -> None:
    env = [{"name": "KEY", "value": "s3cr3t"}]
    full = EXEC | {"args": ["--x", "s3cr3t"], "env": env, "provideClusterInfo": True, "installHint": "get it"}
    found = read({"name": "a", "execConfig": full})
    (provider,) = found.access_providers
    assert found.on
    assert provider.exec_config.args == ("--x", "s3cr3t")
    assert provider.exec_config.env == (("KEY", "s3cr3t"),)
    assert provider.exec_config.provide_cluster_info
    assert "s3cr3t" not in repr(provider)


def test_arguments_and_variables_are_masked_where_settings_are_shown() -> None:
    full = EXEC | {"args": ["s3cr3t"], "env": [{"name": "KEY", "value": "s3cr3t"}]}
    settings = load(None, {VARIABLE: json.dumps([{"name": "a", "execConfig": full}])})
    section = plain(settings)["multikueue"]["clusterProfile"]["accessProviders"]
    assert "s3cr3t" not in shown(section)
    assert json.loads(shown(section))[0]["execConfig"]["command"] == "login"


def test_the_spelling_of_kueues_own_json_is_read() -> None:
    odd = {"apiVersion": V1, "command": "login", "InteractiveMode": "IfAvailable", "args": None, "env": None}
    assert read({"name": "a", "execConfig": odd}).access_providers[0].exec_config.interactive_mode == "IfAvailable"


BAD: dict[str, tuple[Any, str]] = {
    "no name": ({"execConfig": EXEC}, "[0].name must be specified"),
    "no command": ({"name": "a", "execConfig": EXEC | {"command": ""}}, "[0].execConfig.command must be specified"),
    "no version": ({"name": "a", "execConfig": EXEC | {"apiVersion": None}}, "[0].execConfig.apiVersion must be"),
    "alpha": (
        {"name": "a", "execConfig": EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        "[0].execConfig.apiVersion must be client.authentication.k8s.io/v1 or",
    ),
    "no mode": ({"name": "a", "execConfig": EXEC | {"interactiveMode": ""}}, "[0].execConfig.interactiveMode must be"),
    "mode": (
        {"name": "a", "execConfig": EXEC | {"interactiveMode": "x"}},
        "[0].execConfig.interactiveMode must be Never, IfAvailable, Always",
    ),
    "variable": ({"name": "a", "execConfig": EXEC | {"env": [{"value": "s3cr3t"}]}}, "[0].execConfig.env[0].name must"),
    "argument": ({"name": "a", "execConfig": EXEC | {"args": [1]}}, "[0].execConfig.args must be a list of texts"),
    "field": ({"name": "a", "execConfig": EXEC | {"comand": "x"}}, "[0].execConfig has no field comand"),
    "text": ("a", "[0] must have name and execConfig"),
}


@each("case", BAD)
def test_what_is_wrong_is_said_with_the_field(case: str) -> None:
    provider, why = BAD[case]
    with pytest.raises(SettingsError) as error:
        read(provider)
    assert f"multikueue.clusterProfile.accessProviders {why}" in str(error.value)
    assert "s3cr3t" not in str(error.value)


def test_two_of_one_name_and_no_list() -> None:
    with pytest.raises(SettingsError, match='names the access provider "a" twice'):
        read({"name": "a", "execConfig": EXEC}, {"name": "a", "execConfig": EXEC})
    with pytest.raises(SettingsError, match="must be a list of access providers"):
        load(None, {VARIABLE: "{"})
