"""Judges which worker clusters can take a PipelineRun whole, by what is known of each; dispatch keeps to it."""
