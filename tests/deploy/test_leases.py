"""The Leases that the chart lets the service renew are those that it holds, by the same settings."""

from __future__ import annotations

import msgspec

from controlplane.app.claims import lease_names
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
