"""The scheduler beside a target cluster, put together. `service.SchedulerService` is what `controlplane scheduler run` runs."""
