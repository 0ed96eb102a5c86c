"""SQL for people: location and labels of a cluster whose MultiKueueCluster was made again, of which a list shows the new
one before it says that the one before is gone.

It replaces a function by one with the same columns; the version before goes on with the new schema.

Revision ID: 0024
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

HERE = Path(__file__).parent
OBJECT = (
    "        SELECT e.data FROM audit.events e\n"
    "        WHERE e.log = $1 AND e.stream = 'cluster/' || c.cluster AND e.type IN ('MultiKueueClusterObserved', 'MultiKueueClusterGone')\n"
    "          AND e.recorded_at <= $2 ORDER BY e.version DESC LIMIT 1\n"
    "    ) m ON true"
)
BY_UID = (
    "        SELECT e.version, e.data FROM audit.events e\n"
    "        WHERE e.log = $1 AND e.stream = 'cluster/' || c.cluster AND e.type = 'MultiKueueClusterObserved' AND e.recorded_at <= $2\n"
    "        ORDER BY e.version DESC LIMIT 1\n"
    "    ) m ON NOT EXISTS (\n"
    "        SELECT FROM audit.events g\n"
    "        WHERE g.log = $1 AND g.stream = 'cluster/' || c.cluster AND g.type = 'MultiKueueClusterGone' AND g.recorded_at <= $2\n"
    "          AND g.version > m.version AND g.data ->> 'uid' = m.data ->> 'uid')"
)


def upgrade() -> None:
    earlier = _earlier()
    earlier["_fleet_at"](*earlier["FLEET"], (OBJECT, BY_UID))


def downgrade() -> None:
    earlier = _earlier()
    earlier["_fleet_at"](*earlier["FLEET"])


def _earlier() -> dict[str, Any]:
    """Return what the migration before is made of."""
    return runpy.run_path(str(HERE / "0023_absences.py"))
