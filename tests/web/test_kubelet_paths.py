"""What a kubelet is asked for, by the path and the query."""

from __future__ import annotations

from controlplane.kube.kubelet_api import read
from tests.support.rows import each


@each(
    ("path", "query", "wanted"),
    [
        (
            "/containerLogs/team/web/main",
            "follow=true&tailLines=5&insecure=1",
            "/api/v1/namespaces/there/pods/web-1/log?container=main&follow=true&tailLines=5",
        ),
        (
            "/containerLogs/team/web/main",
            "previous=true&timestamps=true&sinceSeconds=3&limitBytes=9",
            (
                "/api/v1/namespaces/there/pods/web-1/log"
                "?container=main&previous=true&timestamps=true&sinceSeconds=3&limitBytes=9"
            ),
        ),
        (
            "/exec/team/web/main",
            "command=sh&command=-c&command=echo+%26&input=1&output=1&tty=1",
            (
                "/api/v1/namespaces/there/pods/web-1/exec"
                "?container=main&stdin=true&stdout=true&tty=true&command=sh&command=-c&command=echo+%26"
            ),
        ),
        ("/exec/team/web/uid-1/main", "error=1", "/api/v1/namespaces/there/pods/web-1/exec?container=main&stderr=true"),
        ("/attach/team/web/main", "output=1", "/api/v1/namespaces/there/pods/web-1/attach?container=main&stdout=true"),
        ("/portForward/team/web", "port=80", "/api/v1/namespaces/there/pods/web-1/portforward?ports=80"),
        ("/portForward/team/web/uid-1", "", "/api/v1/namespaces/there/pods/web-1/portforward"),
        ("/exec/team/web", "", None),
        ("/containerLogs/team/web", "", None),
        ("/containerLogs/team/web/uid/main", "", None),
        ("/containerLogs/../web/main", "", None),
        ("/containerLogs/team/we%2Fb/main", "", None),
        ("/logs/syslog", "", None),
        ("/", "", None),
    ],
)
def test_what_a_kubelet_is_asked_for(path: str, query: str, wanted: str | None) -> None:
    found = read(path, query)
    assert (found.path_for("there", "web-1") if found is not None else None) == wanted
