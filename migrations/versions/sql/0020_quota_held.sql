-- Where this service reserves quota, its ledger says who held what, to the unit and by flavor: the intervals between the entries of a Workload
-- are what it held. What the Workload itself said is asked only where there is no ledger of it. As in 0010: from `streams` to `events` by
-- the stream.
CREATE OR REPLACE VIEW audit.quota_usage AS
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
WHERE s.stream LIKE 'workload/%'
  AND NOT EXISTS (
      SELECT FROM controlplane.events e
      WHERE e.log = s.log AND e.stream = 'admission/' || s.stream AND e.type IN ('QuotaReservationDecided', 'QuotaPosted'))
UNION ALL
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$'), substring(s.stream FROM '/([^/]+)$'),
       q.queue, q.owner, q.cluster_queue, q.flavor, q.resource, q.amount, q.since, q.until, q.position, q.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT w.queue, o.owner, i.cluster_queue, i.flavor, i.resource,
           CASE WHEN i.resource = 'cpu' THEN i.held / 1000 ELSE i.held END AS amount, i.since, i.until, i.position, i.last_position
    FROM (
        SELECT b.*, lead(b.at) OVER kept AS until, lead(b.position) OVER kept AS last_position, b.at AS since
        FROM (
            SELECT a.position, a.at, a.cluster_queue, a.flavor, a.resource,
                   sum(a.amount) OVER (PARTITION BY a.cluster_queue, a.flavor, a.resource ORDER BY a.position) AS held
            FROM (
                SELECT e.position, e.at, e.d ->> 'cluster_queue' AS cluster_queue, f.key AS flavor, r.key AS resource,
                       r.value::numeric AS amount
                FROM (
                    SELECT e.position, e.recorded_at AS at, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                    FROM controlplane.events e
                    WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('QuotaReservationDecided', 'QuotaPosted')
                    OFFSET 0
                ) e
                CROSS JOIN LATERAL jsonb_each(coalesce(e.d -> 'amounts', '{}'::jsonb)) f
                CROSS JOIN LATERAL jsonb_each_text(f.value) r
            ) a
        ) b
        WINDOW kept AS (PARTITION BY b.cluster_queue, b.flavor, b.resource ORDER BY b.position)
    ) i
    LEFT JOIN LATERAL (
        SELECT replace(e.data::text, '\u0000', '\ufffd')::jsonb ->> 'queue' AS queue
        FROM controlplane.events e
        WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'AdmissionWorkloadObserved' AND e.position < i.position
        ORDER BY e.position DESC LIMIT 1
    ) w ON true
    LEFT JOIN LATERAL (
        SELECT (x.d -> 'owner' ->> 'kind') || '/' || (x.d -> 'owner' ->> 'name') AS owner
        FROM (
            SELECT replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = 'jobframework/' || substring(s.stream FROM 11) AND e.type = 'JobWorkloadObserved'
              AND e.position <= coalesce(i.last_position, 9223372036854775807)
            ORDER BY e.position DESC LIMIT 1
        ) x
    ) o ON true
    WHERE i.held > 0
) q
WHERE s.stream LIKE 'admission/workload/%';
