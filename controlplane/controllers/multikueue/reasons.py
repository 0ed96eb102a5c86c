"""Lists why a decision can be taken: a closed set. Text for people is made of it at the edge
(`controlplane.audit.explain`)."""

from __future__ import annotations

from enum import StrEnum


class WorkloadReason(StrEnum):
    """The reasons of MultiKueue decisions; parameters are fields of the decision's event."""

    # nomination and clones
    AVAILABLE_CLUSTERS = "AvailableClusters"
    FIRST_ROUND = "FirstRound"
    NEXT_ROUND = "NextRound"
    NOMINATED_BY_ANOTHER = "NominatedByAnother"
    NOMINATED = "Nominated"
    COMPONENT_FOLLOWS = "ComponentFollows"
    BEST_SCORES = "BestScores"
    CLUSTERS_JUDGED = "ClustersJudged"
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    # the winner
    FIRST_ADMITTED = "FirstAdmitted"
    ONLY_ADMITTED = "OnlyAdmitted"
    EVICTED_BEFORE_READY = "EvictedBeforeReady"
    GONE_BEFORE_READY = "GoneBeforeReady"
    LOST_BEFORE_READY = "LostBeforeReady"
    JOB_NAME_TAKEN = "JobNameTaken"
    JOB_REFUSED = "JobRefused"
    REJECTED_BY_WORKER = "RejectedByWorker"
    PUT_OFF_BY_WORKER = "PutOffByWorker"
    ALTERED_BY_WORKER = "AlteredByWorker"
    ADMITTED_ON_WORKER = "AdmittedOnWorker"
    # removal
    ANOTHER_CLUSTER_WON = "AnotherClusterWon"
    FINISHED = "Finished"
    QUOTA_NOT_RESERVED = "QuotaNotReserved"
    LOCAL_DELETED = "LocalDeleted"
    ORPHANED = "Orphaned"
    POD_GONE = "PodGone"
    POD_ENDED = "PodEnded"
    NOT_NOMINATED = "NotNominated"
    SPEC_DIFFERS = "SpecDiffers"
    STALE_COPY = "StaleCopy"
    DRAINING = "Draining"
    # the way back
    REMOTE_EVICTED = "RemoteEvicted"
    REMOTE_GONE = "RemoteGone"
    REMOTE_LOST = "RemoteLost"
    OUT_OF_SYNC = "OutOfSync"
    NO_CLUSTER_NAME = "NoClusterName"
    EVICTED_ON_MANAGER = "EvictedOnManager"
    # a copy found on a cluster that came back
    STILL_THE_WINNER = "StillTheWinner"
    READMITTED = "Readmitted"
    AWAITS_QUOTA = "AwaitsQuota"
    WINNER_UNHEARD_OF = "WinnerUnheardOf"
    FINISHED_MEANWHILE = "FinishedMeanwhile"
    FENCED = "Fenced"
    # refusal
    CONTRADICTING_POLICIES = "ContradictingPolicies"
    INVALID_CLUSTER_SELECTOR = "InvalidClusterSelector"
    NO_ADAPTER = "NoAdapter"
    NOT_MANAGED = "NotManaged"
    ELASTIC = "Elastic"
    NO_LONGER_REJECTED = "NoLongerRejected"
    # status
    STATUS_CHANGED = "StatusChanged"
    FINAL_STATUS = "FinalStatus"
    NOTHING_RUNS = "NothingRuns"
    PRIORITY_CHANGED = "PriorityChanged"
    SPEC_CHANGED = "SpecChanged"
    SLICE_FOLLOWS = "SliceFollows"
    SLICE_ADMITTED = "SliceAdmitted"
    SIZE_CHANGED = "SizeChanged"
    NAMES_LEFT_BEHIND = "NamesLeftBehind"
    TOPOLOGY_ASSIGNED = "TopologyAssigned"
    # conditions of MultiKueueCluster and AdmissionCheck use Kueue's own reasons
    CONDITION_CHANGED = "ConditionChanged"
    CONDITION_OVERWRITTEN = "ConditionOverwritten"
