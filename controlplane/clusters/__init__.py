"""API servers: kubeconfig checks, transport, verbs that may be repeated, watches that resume, connections that come
back.

All else reaches clusters through `protocol` alone; `app` builds `Connections` (workers) and `management`
(our own cluster)."""
