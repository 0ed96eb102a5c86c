"""One cluster whose own pods are looked after: PodGroups, PipelineRuns' placeholders and the scheduler with Gang, on
one seed.

In: a plan of the scene `local`. Out: an `Outcome`, as of every other plan. `controlplane run`, with the controllers of
one's own cluster, and `controlplane scheduler run` are the real ones, each with a log of its own; Deployments,
kubelets, Tekton and people are simulated. Loop, network and database are those of the package around."""
