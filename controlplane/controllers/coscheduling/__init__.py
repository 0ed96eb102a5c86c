"""A PipelineRun's pods on one node: placeholders, claims, what its tasks are bound to, and everything taken away
again.
"""
