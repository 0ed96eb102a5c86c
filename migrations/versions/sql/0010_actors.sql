-- Who reserved quota, who did what, and what became of candidates. As in 0009: from `streams` to `events` by the stream, so that a
-- namespace and a name are answered from indexes.

-- From the inside: what a Workload was seen to hold; of it the observations at which that changed; then the amounts, from the best source
-- that the log has: the admission's assignments, by flavor; what it takes, without flavors; what its spec asks for, as in audit.runs.
CREATE VIEW audit.quota_usage AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       q.queue, q.owner, q.cluster_queue, q.flavor, q.resource, q.amount, q.since, q.until, q.position, q.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT i.held ->> 'queue' AS queue, i.held ->> 'owner' AS owner, i.held ->> 'cluster_queue' AS cluster_queue,
           a.flavor, a.resource, a.amount, i.since, i.until, i.position, i.last_position
    FROM (
        SELECT t.held, t.at AS since, t.position, lead(t.at) OVER (ORDER BY t.position) AS until,
               lead(t.position) OVER (ORDER BY t.position) AS last_position
        FROM (
            SELECT h.*, h.held IS DISTINCT FROM lag(h.held) OVER (ORDER BY h.position) AS turns
            FROM (
                SELECT e.position, e.at,
                       CASE WHEN e.type = 'WorkloadObserved'
                             AND e.d @? '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")'
                             AND NOT e.d @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")'
                       THEN jsonb_build_object(
                           'uid', e.d ->> 'uid', 'queue', e.d ->> 'queue_name', 'cluster_queue', nullif(e.d ->> 'cluster_queue', ''),
                           'owner', (e.d -> 'owner' ->> 'kind') || '/' || (e.d -> 'owner' ->> 'name'),
                           'assignments', nullif(e.d -> 'assignments', '[]'), 'requests', nullif(e.d -> 'requests', '{}'),
                           'template', coalesce(e.d -> 'kept' ->> 'template', e.d ->> 'template')) END AS held
                FROM (
                    SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                    FROM controlplane.events e
                    WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('WorkloadObserved', 'WorkloadGone')
                    OFFSET 0
                ) e
                OFFSET 0
            ) h
        ) t
        WHERE t.turns
    ) i
    LEFT JOIN LATERAL (
        SELECT w.flavor, w.resource, sum(w.amount) AS amount
        FROM (
            SELECT pod_set -> 'flavors' ->> x.key AS flavor, x.key AS resource, audit.quantity(x.value) AS amount
            FROM jsonb_path_query(i.held, '$.assignments[*]') pod_set
            CROSS JOIN LATERAL jsonb_each_text(
                CASE WHEN jsonb_typeof(pod_set -> 'resourceUsage') = 'object' THEN pod_set -> 'resourceUsage' ELSE '{}' END) x
            UNION ALL
            SELECT NULL, x.key, audit.quantity(x.value)
            FROM jsonb_each(CASE WHEN i.held ->> 'assignments' IS NULL AND jsonb_typeof(i.held -> 'requests') = 'object'
                                 THEN i.held -> 'requests' ELSE '{}' END) pod_set
            CROSS JOIN LATERAL jsonb_each_text(pod_set.value) x
            UNION ALL
            SELECT NULL, x.key, audit.quantity(x.value) * coalesce((pod_set.value ->> 'count')::numeric, 1)
            FROM controlplane.bodies b
            CROSS JOIN LATERAL jsonb_path_query(replace(b.body::text, '\u0000', '\ufffd')::jsonb, '$.spec.podSets[*]') AS pod_set (value)
            CROSS JOIN LATERAL jsonb_path_query(pod_set.value, '$.template.spec.containers[*].resources') AS wants (value)
            CROSS JOIN LATERAL jsonb_each_text(
                CASE WHEN jsonb_typeof(wants.value -> 'limits') = 'object' THEN wants.value -> 'limits' ELSE '{}' END
                || CASE WHEN jsonb_typeof(wants.value -> 'requests') = 'object' THEN wants.value -> 'requests' ELSE '{}' END) x
            WHERE i.held ->> 'assignments' IS NULL AND i.held ->> 'requests' IS NULL
              AND b.hash = CASE WHEN i.held ->> 'template' ~ '^[0-9a-f]{64}$' THEN decode(i.held ->> 'template', 'hex') END
        ) w
        GROUP BY w.flavor, w.resource
    ) a ON true
    WHERE i.held IS NOT NULL
) q
WHERE s.stream LIKE 'workload/%';

-- Three kinds of actors, each from the streams that name some. A condition on `role` leaves the others unread.
CREATE VIEW audit.actors AS
SELECT s.log, 'operator' AS role, a.d ->> 'by' AS actor, a.type AS action,
       CASE WHEN s.stream LIKE 'cluster/%' THEN substring(s.stream FROM '/([^/]+)$') END AS cluster,
       NULL AS namespace, NULL AS name, a.at AS since, s.stream, a.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
    FROM controlplane.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('ClusterForgotten', 'MassOutageAccepted', 'LogRebound')
) a
WHERE s.stream LIKE 'cluster/%' OR s.stream IN ('fleet', 'service')
UNION ALL
SELECT s.log, 'replica', a.actor, a.type, CASE WHEN s.stream LIKE 'cluster/%' THEN substring(s.stream FROM '/([^/]+)$') END,
       NULL, NULL, a.at, s.stream, a.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.at, e.type, coalesce(nullif(e.d ->> 'seen_by', ''), e.d ->> 'holder') AS actor
    FROM (
        SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
        FROM controlplane.events e
        WHERE e.log = s.log AND e.stream = s.stream
          AND e.type IN ('ServiceStarted', 'ServiceStopped', 'LogWentBack', 'ClusterSuspected', 'ClusterLost')
    ) e
) a
WHERE (s.stream LIKE 'cluster/%' OR s.stream IN ('fleet', 'service')) AND a.actor <> ''
UNION ALL
SELECT s.log, 'controller', c.controller, c.type, c.cluster, substring(s.stream FROM '/([^/]+)/[^/]+$'), substring(s.stream FROM '/([^/]+)$'),
       c.at, s.stream, c.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT n.*, n.controller IS DISTINCT FROM lag(n.controller) OVER (ORDER BY n.position) AS turns
    FROM (
        SELECT e.position, e.at, e.type, e.cluster, coalesce(e.d ->> 'managed_by', e.d ->> 'controller_name', '') AS controller
        FROM (
            SELECT e.position, e.recorded_at AS at, e.type, e.cluster, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('JobObserved', 'AdmissionCheckObserved')
        ) e
    ) n
) c
WHERE (s.stream LIKE 'job/%' OR s.stream LIKE 'admissioncheck/%') AND c.turns AND c.controller <> '';

-- One row a candidate: its name is of one target, pod and epoch. Decisions name it in `candidate`, observations in `name`.
CREATE VIEW audit.candidates AS
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
               max(e.at) FILTER (WHERE e.type = 'CandidateGone') AS gone_at,
               (array_agg(e.d ->> 'node' ORDER BY e.position DESC) FILTER (WHERE e.d ->> 'node' <> ''))[1] AS node,
               (array_agg(e.d ORDER BY e.position DESC) FILTER (WHERE e.type = 'PermitGranted'))[1] AS permitted,
               (array_agg(e.d ORDER BY e.position) FILTER (WHERE e.type = 'CandidateDropped'))[1] AS dropped,
               (array_agg(jsonb_build_object('type', e.type, 'd', e.d) ORDER BY e.position DESC)
                    FILTER (WHERE e.type IN ('CandidateWaiting', 'CandidateReserved', 'CandidateUnschedulable', 'CandidateRefused',
                                             'CandidateUnreserved')))[1] AS answer,
               min(e.position) AS position, max(e.position) FILTER (WHERE e.type = 'CandidateGone') AS last_position
        FROM (
            SELECT o.position, o.at, o.type, o.cluster, o.d, coalesce(o.d ->> 'candidate', o.d ->> 'name') AS candidate
            FROM (
                SELECT e.position, e.recorded_at AS at, e.type, e.cluster, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                FROM controlplane.events e
                WHERE e.log = s.log AND e.stream = s.stream
                  AND e.type IN ('CandidateRequested', 'PermitGranted', 'CandidateDropped', 'CandidateWaiting', 'CandidateRefused',
                                 'CandidateUnschedulable', 'CandidateReserved', 'CandidateUnreserved', 'CandidateBound', 'DelegateStatus',
                                 'DelegateMissing', 'CandidateGone')
                OFFSET 0
            ) o
        ) e
        GROUP BY e.candidate
    ) g
) c
WHERE s.stream LIKE 'sourcepod/%';
