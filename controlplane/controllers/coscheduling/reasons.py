"""Why a decision was taken: a closed set. The parameters are fields of the decision's event; text for people is made at
the edge.
"""

from __future__ import annotations

from enum import StrEnum


class CoschedulingReason(StrEnum):
    """The reasons of decisions about a PipelineRun's placeholders and claims."""

    # the run
    RUN_STARTED = "RunStarted"
    SEEN_HERE = "SeenHere"
    PARENT_IS_ISOLATED = "ParentIsIsolated"
    RUN_FINISHED = "RunFinished"
    RUN_DELETED = "RunDeleted"
    RECREATED = "Recreated"
    # creation
    WORKSPACE_HAS_A_CLAIM = "WorkspaceHasAClaim"
    ONE_PER_RUN = "OnePerRun"
    CLAIM_FROM_TEMPLATE = "ClaimFromTemplate"
    # refusal and waiting
    BAD_INPUT = "BadInput"
    SEVERAL_CLAIMS = "SeveralClaims"
    VOLUMES_APART = "VolumesApart"
    NOTHING_IN_THE_WAY = "NothingInTheWay"
    BAD_FLAGS = "BadFlags"
    # eviction
    NODE_CORDONED = "NodeCordoned"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    POD_LIMIT = "PodLimit"
    TASK_EXCLUDED = "TaskExcluded"
    TASK_NEVER_FITS = "TaskNeverFits"
    # cleanup
    TEMPLATE_CLAIM = "TemplateClaim"
    AUTO_CLEANUP = "AutoCleanup"
    ATTEMPT_OVER = "AttemptOver"
    # where a run fits
    CLAIM_MISSING = "ClaimMissing"
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    MODE_DIFFERS = "ModeDiffers"
    NO_NODE_FITS = "NoNodeFits"
    NO_POD_SLOT = "NoPodSlot"
    PIPELINE_MISSING = "PipelineMissing"
    TASK_MISSING = "TaskMissing"
    EVERY_NODE_HAS_A_RUN = "EveryNodeHasARun"
