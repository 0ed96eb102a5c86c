"""How long a test waits for what has to come. Nothing is slower for it: it only turns a hang into a failure, on a
machine with a tenth of the time for us too."""

from __future__ import annotations

PATIENCE = 120.0  # seconds
