"""The command line names the editions of plans without loading the simulation: here the two are compared."""

from __future__ import annotations

import click

from controlplane.cli.simulate import simulate
from controlplane.dst.engine.plan import EDITION, EDITIONS


def test_every_edition_can_be_asked_for() -> None:
    (option,) = (one for one in simulate.params if one.name == "edition")
    assert isinstance(option, click.Option)
    assert isinstance(option.type, click.IntRange)
    assert (option.type.min, option.type.max) == (EDITIONS[0], EDITIONS[-1])
    assert f"{EDITION} by default" in (option.help or "")
