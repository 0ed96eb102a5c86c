"""The composition root: the only place that sees every controller. `service.Service` is what `controlplane run`
runs.
"""
