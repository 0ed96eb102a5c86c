-- One row a candidate: its name is of one target, pod and epoch, and one that is gone may be made again. Decisions name it in `candidate`,
-- observations in `name`; a decision is of the one that is there, a request also of the one that comes after one that is gone.
CREATE OR REPLACE VIEW audit.candidates AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       c.cluster, c.epoch, c.candidate, c.outcome, c.reason, c.message, c.node, c.offered_at, c.answered_at, c.reserved_at, c.permitted_at,
       c.permit_reason, c.permits, c.bound_at, c.refused_at, c.dropped_at, c.dropped_reason, c.gone_at,
       round(extract(epoch FROM c.answered_at - c.offered_at), 3) AS waiting_seconds, c.position, c.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT g.candidate, g.cluster, g.epoch, g.offered_at, g.answered_at, g.reserved_at, g.permitted_at, g.permits, g.bound_at, g.refused_at,
           g.dropped_at, g.gone_at, g.position, g.last_position, g.node,
           coalesce((g.permitted ->> 'reason'), '') AS permit_reason, coalesce((g.dropped ->> 'reason'), '') AS dropped_reason,
           CASE WHEN g.bound_at IS NOT NULL THEN 'Bound' ELSE coalesce(substring(g.answer ->> 'type' FROM '^Candidate(.+)$'), 'Offered') END AS outcome,
           CASE WHEN g.bound_at IS NOT NULL THEN '' ELSE coalesce(g.answer -> 'd' ->> 'why', '') END AS reason,
           CASE WHEN g.bound_at IS NOT NULL THEN '' ELSE coalesce(g.answer -> 'd' ->> 'message', '') END AS message
    FROM (
        SELECT e.candidate, (array_agg(e.cluster ORDER BY e.position))[1] AS cluster,
               max(coalesce((e.d ->> 'epoch')::int, (e.d -> 'origin' ->> 'epoch')::int)) AS epoch,
               min(e.at) FILTER (WHERE e.type = 'CandidateRequested') AS offered_at,
               min(e.at) FILTER (WHERE e.type IN ('CandidateReserved', 'CandidateUnschedulable', 'CandidateRefused', 'CandidateBound',
                                                  'DelegateStatus')) AS answered_at,
               min(e.at) FILTER (WHERE e.type = 'CandidateReserved') AS reserved_at,
               min(e.at) FILTER (WHERE e.type = 'PermitGranted') AS permitted_at,
               count(*) FILTER (WHERE e.type = 'PermitGranted') AS permits,
               min(e.at) FILTER (WHERE e.type IN ('CandidateBound', 'DelegateStatus')) AS bound_at,
               min(e.at) FILTER (WHERE e.type IN ('CandidateRefused', 'CandidateUnschedulable')) AS refused_at,
               min(e.at) FILTER (WHERE e.type = 'CandidateDropped') AS dropped_at,
               CASE WHEN max(e.position) FILTER (WHERE e.type = 'CandidateGone') = max(e.position) FILTER (WHERE e.uid IS NOT NULL)
                   THEN max(e.at) FILTER (WHERE e.type = 'CandidateGone') END AS gone_at,
               (array_agg(e.d ->> 'node' ORDER BY e.position DESC) FILTER (WHERE e.d ->> 'node' <> ''))[1] AS node,
               (array_agg(e.d ORDER BY e.position DESC) FILTER (WHERE e.type = 'PermitGranted'))[1] AS permitted,
               (array_agg(e.d ORDER BY e.position) FILTER (WHERE e.type = 'CandidateDropped'))[1] AS dropped,
               (array_agg(jsonb_build_object('type', e.type, 'd', e.d) ORDER BY e.position DESC)
                    FILTER (WHERE e.type IN ('CandidateWaiting', 'CandidateReserved', 'CandidateUnschedulable', 'CandidateRefused',
                                             'CandidateUnreserved')))[1] AS answer,
               min(e.position) AS position, CASE WHEN max(e.position) FILTER (WHERE e.type = 'CandidateGone') = max(e.position) FILTER (WHERE e.uid IS NOT NULL)
                   THEN max(e.position) FILTER (WHERE e.type = 'CandidateGone') END AS last_position
        FROM (
            SELECT k.*, coalesce(k.own_life, greatest(k.lives, 1, max(
                       CASE WHEN k.type = 'CandidateRequested' THEN k.lives + (k.lives = 0 OR coalesce(k.gone_life = k.lives, false))::int END) OVER w)) AS life
            FROM (
            SELECT g.*, max(g.own_life) FILTER (WHERE g.type = 'CandidateGone') OVER w AS gone_life
            FROM (
            SELECT n.*, CASE WHEN n.uid IS NOT NULL THEN min(n.lives) OVER (PARTITION BY n.candidate, n.uid) END AS own_life
            FROM (
            SELECT f.*, count(*) FILTER (WHERE f.first_seen) OVER w AS lives
            FROM (
            SELECT u.*, u.uid IS NOT NULL AND u.position = min(u.position) OVER (PARTITION BY u.candidate, u.uid) AS first_seen
            FROM (
            SELECT o.position, o.at, o.type, o.cluster, o.d, coalesce(o.d ->> 'candidate', o.d ->> 'name') AS candidate,
                   CASE WHEN o.type NOT IN ('CandidateRequested', 'PermitGranted', 'CandidateDropped') THEN o.d ->> 'uid' END AS uid
            FROM (
                SELECT e.position, e.recorded_at AS at, e.type, e.cluster, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                FROM controlplane.events e
                WHERE e.log = s.log AND e.stream = s.stream
                  AND e.type IN ('CandidateRequested', 'PermitGranted', 'CandidateDropped', 'CandidateWaiting', 'CandidateRefused',
                                 'CandidateUnschedulable', 'CandidateReserved', 'CandidateUnreserved', 'CandidateBound', 'DelegateStatus',
                                 'DelegateMissing', 'CandidateGone')
                OFFSET 0
            ) o
            ) u
            ) f
            WINDOW w AS (PARTITION BY f.candidate ORDER BY f.position)
            ) n
            ) g
            WINDOW w AS (PARTITION BY g.candidate ORDER BY g.position)
            ) k
            WINDOW w AS (PARTITION BY k.candidate ORDER BY k.position)
        ) e
        GROUP BY e.candidate, e.life
    ) g
) c
WHERE s.stream LIKE 'sourcepod/%';
