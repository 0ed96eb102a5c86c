-- Each reservation of a candidate, as its source saw it. From the inside: what was said of the candidates of a source pod, and decided about
-- them; the observations at which one began or ended (an observation is compared with the one before it, decisions apart); what lies between
-- two of those, as one row; beside it what came next. As in 0010: from `streams` to `events` by the stream.
CREATE VIEW audit.reservations AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       r.cluster, r.epoch, r.candidate, r.number, r.node, r.score, r.since, r.permitted_at, r.expires, r.until, r.outcome,
       CASE WHEN r.outcome = 'Dropped' THEN r.dropped
            WHEN r.next_type IN ('CandidateUnreserved', 'CandidateRefused') THEN coalesce(r.next_said ->> 'why', '')
            ELSE '' END AS reason,
       CASE WHEN r.next_type IN ('CandidateUnreserved', 'CandidateRefused') THEN coalesce(r.next_said ->> 'message', '')
            ELSE '' END AS message,
       r.position, r.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT n.*, (n.said ->> 'reservation')::bigint AS number, n.said ->> 'node' AS node, (n.said ->> 'score')::bigint AS score,
           (n.said -> 'origin' ->> 'epoch')::bigint AS epoch,
           CASE WHEN n.next_type IS NULL THEN 'Held'
                WHEN n.next_type IN ('CandidateBound', 'DelegateStatus', 'DelegateMissing') THEN 'Bound'
                WHEN n.dropped IS NOT NULL THEN 'Dropped'
                WHEN n.next_type = 'CandidateUnreserved' AND n.next_said ->> 'why' = 'Timeout' THEN 'Lapsed'
                WHEN n.next_type = 'CandidateUnreserved' AND n.next_said ->> 'why' = 'Revoked' THEN 'Withdrawn'
                WHEN n.next_type = 'CandidateGone' THEN 'Gone'
                ELSE 'Unreserved' END AS outcome
    FROM (
        SELECT g.*, lead(g.position) OVER w AS last_position, lead(g.since) OVER w AS until,
               lead(g.type) OVER w AS next_type, lead(g.said) OVER w AS next_said
        FROM (
            SELECT i.candidate, i.cluster, i.turn, min(i.position) AS position, min(i.at) AS since,
                   (array_agg(i.type ORDER BY i.position))[1] AS type, (array_agg(i.d ORDER BY i.position))[1] AS said,
                   (array_agg(i.held ORDER BY i.position))[1] AS held,
                   max((i.d ->> 'expires')::timestamptz) FILTER (WHERE i.type = 'CandidateReserved') AS expires,
                   min(i.at) FILTER (WHERE i.type = 'PermitGranted' AND i.d ->> 'kind' = 'Bind') AS permitted_at,
                   (array_agg(i.dropped ORDER BY i.position DESC))[1] AS dropped
            FROM (
                SELECT t.*, count(*) FILTER (WHERE t.turns) OVER w AS turn,
                       (array_agg(t.d ->> 'reason') FILTER (WHERE t.type = 'CandidateDropped') OVER w)[1] AS dropped
                FROM (
                    SELECT h.*, h.seen AND h.held IS DISTINCT FROM
                           lag(h.held) OVER (PARTITION BY h.candidate, h.cluster, h.seen ORDER BY h.position) AS turns
                    FROM (
                        SELECT e.position, e.at, e.type, e.cluster, e.d, coalesce(e.d ->> 'candidate', e.d ->> 'name') AS candidate,
                               e.type NOT IN ('PermitGranted', 'CandidateDropped') AS seen,
                               CASE WHEN e.type = 'CandidateReserved'
                               THEN jsonb_build_array(e.d ->> 'uid', coalesce((e.d ->> 'reservation')::bigint, 0)) END AS held
                        FROM (
                            SELECT e.position, e.recorded_at AS at, e.type, e.cluster, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                            FROM controlplane.events e
                            WHERE e.log = s.log AND e.stream = s.stream
                              AND e.type IN ('PermitGranted', 'CandidateDropped', 'CandidateWaiting', 'CandidateRefused',
                                             'CandidateUnschedulable', 'CandidateReserved', 'CandidateUnreserved', 'CandidateBound',
                                             'DelegateStatus', 'DelegateMissing', 'CandidateGone')
                            OFFSET 0
                        ) e
                        OFFSET 0
                    ) h
                ) t
                WINDOW w AS (PARTITION BY t.candidate, t.cluster ORDER BY t.position)
            ) i
            WHERE i.turn > 0
            GROUP BY i.candidate, i.cluster, i.turn
        ) g
        WINDOW w AS (PARTITION BY g.candidate, g.cluster ORDER BY g.turn)
    ) n
    WHERE n.held IS NOT NULL
) r
WHERE s.stream LIKE 'sourcepod/%';
