"""What connectivity says of itself."""

from __future__ import annotations

from controlplane.controllers.connectivity.events import EVENTS
from controlplane.controllers.connectivity.phrases import PHRASES
from controlplane.runtime.manifest import Manifest

MANIFEST = Manifest(
    title="Connections",
    intro="Processes, the log itself, and the connections to clusters.",
    events=EVENTS,
    phrases=PHRASES,
    streams={
        "cluster/NAME": "a MultiKueueCluster and the connection to it; the management cluster's own connection is"
        " `cluster/@management`",
        "fleet": "what concerns all clusters together",
        "service": "the processes that took the log over",
    },
)
