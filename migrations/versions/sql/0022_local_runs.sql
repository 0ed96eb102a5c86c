-- The runs of jobs that run where they were submitted: a Workload that is admitted without having been offered to a cluster runs on the
-- management cluster, from when it is seen Admitted until it is seen evicted, finished or without its admission, or is gone. As in 0009: from
-- `streams` to `events` by the stream, so that a namespace and a name are answered from indexes. Of a Workload, until it is gone, nothing is of
-- this view from its first offer on, or from when it names a cluster: that is of the other runs. A new list shows a Workload before it says that
-- the one which had its name before is gone: that is no end of the new one.
CREATE VIEW read_models.live_local_runs AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       r.queue, r.owner, '@management' AS cluster, 0 AS attempt, r.since, r.until, r.outcome, r.reason, false AS overlapped,
       false AS overlapped_unseen, interval '0' AS twice, r.unseen_since,
       CASE WHEN r.unseen_since IS NOT NULL THEN r.until END AS unseen_until, NULL::timestamptz AS given_up_at,
       -- what was admitted, from the best source that the log has; else what the spec asks for, as in the other runs
       (SELECT jsonb_object_agg(q.resource, q.amount) FROM (
            SELECT one.resource, sum(one.amount) AS amount FROM (
                SELECT x.key AS resource, audit.quantity(x.value) AS amount
                FROM jsonb_path_query(coalesce(r.assigned, m.assigned), '$[*].resourceUsage ? (@.type() == "object")') AS usage (value)
                CROSS JOIN LATERAL jsonb_each_text(usage.value) x
                UNION ALL
                SELECT x.key, audit.quantity(x.value)
                FROM jsonb_each(r.requests) pod_set CROSS JOIN LATERAL jsonb_each_text(pod_set.value) x
                WHERE coalesce(r.assigned, m.assigned) IS NULL
                UNION ALL
                SELECT x.key, audit.quantity(x.value) * coalesce((pod_set.value ->> 'count')::numeric, 1)
                FROM controlplane.bodies b
                CROSS JOIN LATERAL jsonb_path_query(replace(b.body::text, '\u0000', '\ufffd')::jsonb, '$.spec.podSets[*]') AS pod_set (value)
                CROSS JOIN LATERAL jsonb_path_query(pod_set.value, '$.template.spec.containers[*].resources') AS wants (value)
                CROSS JOIN LATERAL jsonb_each_text(
                    CASE WHEN jsonb_typeof(wants.value -> 'limits') = 'object' THEN wants.value -> 'limits' ELSE '{}' END
                    || CASE WHEN jsonb_typeof(wants.value -> 'requests') = 'object' THEN wants.value -> 'requests' ELSE '{}' END) x
                WHERE coalesce(r.assigned, m.assigned) IS NULL AND r.requests IS NULL
                  AND b.hash = CASE WHEN r.template ~ '^[0-9a-f]{64}$' THEN decode(r.template, 'hex') END
            ) one GROUP BY one.resource) q) AS resources,
       r.job_uid, r.position, r.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT j.queue, j.owner, j.at AS since, j.until, j.assigned, j.requests, j.applied, j.template, j.job_uid, j.position, j.last_position,
           away.at AS unseen_since,
           CASE WHEN j.last_position IS NULL THEN NULL
                WHEN j.next_uid <> j.uid OR j.next_type = 'WorkloadGone' THEN 'Removed' -- a decision has no UID
                WHEN j.next_finish IS NOT NULL THEN j.next_finish
                WHEN j.next_evicted IS NOT NULL THEN 'Evicted'
                ELSE 'Suspended' END AS outcome,
           CASE WHEN j.next_uid = j.uid AND j.next_finish IS NULL THEN coalesce(j.next_evicted, '') ELSE '' END AS reason
    FROM (
        SELECT t.*, lead(t.position) OVER w AS last_position, lead(t.at) OVER w AS until, lead(t.type) OVER w AS next_type,
               lead(t.uid) OVER w AS next_uid, lead(t.finish) OVER w AS next_finish, lead(t.evicted) OVER w AS next_evicted
        FROM (
            SELECT c.*, (CASE WHEN c.here THEN c.uid END) IS DISTINCT FROM
                       lag(CASE WHEN c.here THEN c.uid END) OVER (ORDER BY c.position) AS turns
            FROM (
                SELECT b.position, b.at, b.type, b.d ->> 'uid' AS uid, b.finish, b.evicted, b.d ->> 'queue_name' AS queue,
                       (b.d -> 'owner' ->> 'kind') || '/' || (b.d -> 'owner' ->> 'name') AS owner, b.d -> 'owner' ->> 'uid' AS job_uid,
                       nullif(b.d -> 'assignments', '[]') AS assigned, nullif(b.d -> 'requests', '{}') AS requests,
                       coalesce(b.d -> 'kept' ->> 'applied', b.d ->> 'applied') AS applied,
                       coalesce(b.d -> 'kept' ->> 'template', b.d ->> 'template') AS template,
                       b.admitted AND b.finish IS NULL AND b.evicted IS NULL
                           AND NOT bool_or(b.dispatched) OVER (PARTITION BY b.gone_before, b.uid_now ORDER BY b.position) AS here
                FROM (
                    SELECT e.*,
                           count(*) FILTER (WHERE e.type = 'WorkloadGone')
                               OVER (ORDER BY e.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gone_before,
                           e.type NOT IN ('WorkloadObserved', 'WorkloadGone') OR coalesce(e.d ->> 'cluster_name', '') <> '' AS dispatched,
                           e.d @? '$.conditions[*] ? (@.type == "Admitted" && @.status == "True")' AS admitted,
                           (SELECT coalesce(nullif(f ->> 'reason', ''), 'Finished')
                            FROM jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "Finished" && @.status == "True")') f
                            WHERE f IS NOT NULL) AS finish,
                           (SELECT coalesce(f ->> 'reason', '')
                            FROM jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True")') f
                            WHERE f IS NOT NULL) AS evicted
                    FROM (SELECT n.*, first_value(n.d ->> 'uid') OVER (PARTITION BY n.seen ORDER BY n.position) AS uid_now
                    FROM (SELECT o.*, count(*) FILTER (WHERE o.type = 'WorkloadObserved') OVER (ORDER BY o.position) AS seen
                    FROM (
                        SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                        FROM controlplane.events e
                        WHERE e.log = s.log AND e.stream = s.stream
                          AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', 'WinnerChosen')
                        OFFSET 0
                    ) o) n) e
                    WHERE e.type <> 'WorkloadGone' OR e.d ->> 'uid' = e.uid_now
                    OFFSET 0
                ) b
            ) c
        ) t
        WHERE t.turns
        WINDOW w AS (ORDER BY t.position)
    ) j
    LEFT JOIN LATERAL (
        SELECT l.recorded_at AS at
        FROM controlplane.events l
        WHERE l.log = s.log AND l.stream = 'cluster/@management'
          AND l.type IN ('ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
          AND l.position > j.position AND l.position < coalesce(j.last_position, 9223372036854775807)
          AND l.position > (SELECT max(c.position) FROM controlplane.events c
                            WHERE c.log = s.log AND c.stream = 'cluster/@management' AND c.type = 'ClusterConnected'
                              AND c.position < coalesce(j.last_position, 9223372036854775807))
        ORDER BY l.position LIMIT 1
    ) away ON true
    WHERE j.here
) r
LEFT JOIN LATERAL (
    SELECT jsonb_path_query_first(replace(b.body::text, '\u0000', '\ufffd')::jsonb, '$.admission.podSetAssignments') AS assigned
    FROM controlplane.bodies b
    WHERE r.assigned IS NULL AND r.requests IS NULL
      AND b.hash = CASE WHEN r.applied ~ '^[0-9a-f]{64}$' THEN decode(r.applied, 'hex') END
) m ON true
WHERE s.stream LIKE 'workload/%';
