"""API servers: kubeconfig checks, transport, verbs that may be repeated, watches that resume, connections that come
back.

The rest of the house speaks to clusters through `port` alone; `app.py` builds `Connections` (workers) and `management`
(our own cluster)."""
