"""Explain one pod's scheduling from objects in hand, without a cluster: `controlplane scheduler evaluate`.

`question` reads a line, `answer` evaluates it plugin by plugin and together, `people` puts the result into the words of
`kubectl describe`.
"""
