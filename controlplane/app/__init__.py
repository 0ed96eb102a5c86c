"""The composition root: the only place that sees every room. `service.Service` is what `controlplane run` runs."""
