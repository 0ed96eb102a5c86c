"""`python -m controlplane.settings > docs/reference/settings.md` writes the reference page."""

from __future__ import annotations

import sys

from controlplane.settings.reference import reference

sys.stdout.write(reference())
