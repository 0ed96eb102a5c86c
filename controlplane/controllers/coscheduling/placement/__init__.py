"""Where the pods of a PipelineRun go: placeholders, their claims, and what is moved or removed."""
