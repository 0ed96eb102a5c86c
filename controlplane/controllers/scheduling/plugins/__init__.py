"""The plugins of kube-scheduler, rule by rule (specs/scheduler.md). `registry` lists them."""
