"""Which worker clusters can take a PipelineRun whole: what is known of each, and the judgement that dispatch keeps to
(section 8).
"""
