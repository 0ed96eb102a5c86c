"""Explains one pod's scheduling from objects in hand, without a cluster: `controlplane scheduler evaluate`.

`request` reads a line, `answer` evaluates it plugin by plugin and together, `text` writes the result as
`kubectl describe` does.
"""
