"""The plugins of kube-scheduler, rule by rule (kubernetes/kubernetes pkg/scheduler/framework/plugins, v1.36).

`framework.registry` lists them."""
