"""The Leases that the chart lets the service and the scheduler renew are those that they hold, by the same settings."""

from __future__ import annotations

import msgspec

from controlplane.app.claims import lease_names, scheduler_lease_names
from controlplane.settings.load import load
from controlplane.settings.model import Settings
from tests.deploy.charts import by_name, helm, template


@helm
def test_the_leases_that_it_may_renew_are_those_of_the_settings() -> None:
    chosen = {"database": {"log": "second"}, "multikueue": {"controllerName": "example.com/second", "origin": "second"}}
    env = {"MULTIKUEUE_CONTROLLER_NAME": "example.com/second", "MULTIKUEUE_ORIGIN": "second"}
    settings = load(None, {f"CONTROLPLANE_{name}": value for name, value in env.items()})
    for given, of in (({}, Settings()), (chosen, settings)):
        role = by_name(template({"settings": given}))["ClusterRole", "controlplane-leases"]
        allowed = {name for rule in role["rules"] for name in rule.get("resourceNames", ())}
        everything = ("multikueue", "candidates", "podgroups", "coscheduling")
        run, quota = (
            msgspec.structs.replace(of.run, controllers=everything),
            msgspec.structs.replace(of.quota, mode="builtin"),
        )
        assert allowed == set(lease_names(msgspec.structs.replace(of, run=run, quota=quota)))
    none = by_name(template({"settings": {"leader": {"leaseNamespace": ""}}}))
    assert ("ClusterRole", "controlplane-leases") not in none


@helm
def test_those_of_the_scheduler_are_those_of_its_profiles() -> None:
    names = ["controlplane", "packed", "team.example.com"]
    values = {"enabled": True, "profiles": [{"schedulerName": name} for name in names]}
    role = by_name(template({"scheduler": values}))["ClusterRole", "controlplane-scheduler-leases"]
    allowed = [name for rule in role["rules"] for name in rule.get("resourceNames", ())]
    assert allowed == scheduler_lease_names(Settings(), names)
    none = by_name(template({"scheduler": {**values, "settings": {"leader": {"leaseNamespace": ""}}}}))
    assert ("ClusterRole", "controlplane-scheduler-leases") not in none
