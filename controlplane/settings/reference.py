"""The reference page of the settings, written from the definitions themselves (`docs/reference/settings.md`)."""

from __future__ import annotations

from controlplane.settings.model import LEAVES, Leaf, Settings
from controlplane.settings.plain import shown
from controlplane.settings.sources import OTHER_VARIABLES

_HEAD = """# Settings

<!-- Written by `python -m controlplane.settings`. Change controlplane/settings/model.py instead. -->

A value comes from its default, from the YAML file (`--config FILE` or `CONTROLPLANE_CONFIG`), from its environment variable or from an
option of the command line; the later wins. In the file, the dots of a name are levels:

```yaml
multikueue:
  workerLostTimeout: 15m
```

Durations are written as in Go: `500ms`, `15m`, `1h30m`, `0`. In a variable, the items of a list are separated by commas, and an empty
variable counts as not set. Names that do not exist are refused, in the file as in the environment. `controlplane config check` names
every problem; `controlplane config show` prints the effective values and where each came from.

| setting | variable | default | allowed | meaning |
|---|---|---|---|---|
"""


def reference() -> str:
    """Return the page, in Markdown."""
    rows = "".join(_row(leaf) for leaf in LEAVES)
    other = "".join(f"| `{name}` | {doc} |\n" for name, doc in OTHER_VARIABLES.items())
    return f"{_HEAD}{rows}\nVariables that are not settings:\n\n| variable | meaning |\n|---|---|\n{other}"


def _row(leaf: Leaf) -> str:
    rule, doc = leaf.setting.rule, leaf.setting.doc
    default = leaf.setting.default
    if not default:
        value = shown(rule.show(leaf.of(Settings())))
        default = f"`{value}`" if value else "(empty)"
    return f"| `{leaf.key}` | `{leaf.variable}` | {default} | {rule.describe()} | {doc} |\n"
