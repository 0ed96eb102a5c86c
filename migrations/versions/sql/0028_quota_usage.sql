-- As in 0027, where what is seen of a Workload is read once, and not for each time in which it held something: who held what, by the ledger
-- where this service reserves quota, else by what the Workload itself said. Which of the two holds is asked of each moment: the ledger from an
-- entry of it on, until the settings say that Kueue decides again, since then nobody keeps it; and with its next entry all of it counts anew.
CREATE OR REPLACE VIEW audit.quota_usage AS
WITH given_up AS MATERIALIZED (
    SELECT s.log, p.position, p.at
    FROM controlplane.streams s
    CROSS JOIN LATERAL (
        SELECT c.position, c.at, c.reserves, lag(c.reserves) OVER (ORDER BY c.position) AS reserved
        FROM (
            SELECT e.position, e.recorded_at AS at,
                   coalesce(replace(e.data::text, '\u0000', '\ufffd')::jsonb -> 'quota', '{}') <> '{}' AS reserves
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'PolicyInForce'
        ) c
    ) p
    WHERE s.stream = 'service' AND p.reserved AND NOT p.reserves
)
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       q.queue, q.owner, q.cluster_queue, q.flavor, q.resource, trim_scale(q.amount) AS amount, q.since, q.until, q.position, q.last_position
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
                SELECT f.position, f.at,
                       CASE WHEN f.seen > 0 AND first_value(f.what) OVER (PARTITION BY f.changed ORDER BY f.position) <> 'entry'
                       THEN first_value(f.shown) OVER (PARTITION BY f.seen ORDER BY f.position) END AS held
                FROM (
                    SELECT o.*, count(*) FILTER (WHERE o.what = 'seen') OVER (ORDER BY o.position) AS seen,
                           count(*) FILTER (WHERE o.what <> 'seen') OVER (ORDER BY o.position) AS changed
                    FROM (
                        SELECT e.position, e.at, 'seen' AS what,
                               CASE WHEN e.type = 'WorkloadObserved'
                                     AND e.d @? '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")'
                                     AND NOT e.d @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")'
                               THEN jsonb_build_object(
                                   'uid', e.d ->> 'uid', 'queue', e.d ->> 'queue_name', 'cluster_queue', nullif(e.d ->> 'cluster_queue', ''),
                                   'owner', (e.d -> 'owner' ->> 'kind') || '/' || (e.d -> 'owner' ->> 'name'),
                                   'assignments', nullif(e.d -> 'assignments', '[]'), 'requests', nullif(e.d -> 'requests', '{}'),
                                   'template', coalesce(e.d -> 'kept' ->> 'template', e.d ->> 'template')) END AS shown
                        FROM (
                            SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                            FROM read_models.told e
                            WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('WorkloadObserved', 'WorkloadGone')
                            OFFSET 0
                        ) e
                        UNION ALL
                        SELECT e.position, e.recorded_at, 'entry', NULL
                        FROM controlplane.events e
                        WHERE e.log = s.log AND e.stream = 'admission/' || s.stream AND e.type IN ('QuotaReservationDecided', 'QuotaPosted')
                        UNION ALL
                        SELECT g.position, g.at, 'given up', NULL FROM given_up g WHERE g.log = s.log
                    ) o
                    OFFSET 0
                ) f
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
UNION ALL
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$'), substring(s.stream FROM '/([^/]+)$'),
       q.queue, q.owner, q.cluster_queue, q.flavor, q.resource, trim_scale(q.amount), q.since, q.until, q.position, q.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    WITH entry AS MATERIALIZED (
        SELECT e.position, e.recorded_at AS at, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
        FROM controlplane.events e
        WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('QuotaReservationDecided', 'QuotaPosted')
    ), posted AS MATERIALIZED (
        SELECT e.position, e.at, e.d ->> 'cluster_queue' AS cluster_queue, f.key AS flavor, r.key AS resource, r.value::numeric AS amount
        FROM entry e
        CROSS JOIN LATERAL jsonb_each(coalesce(e.d -> 'amounts', '{}'::jsonb)) f
        CROSS JOIN LATERAL jsonb_each_text(f.value) r
    ), shown AS MATERIALIZED (
        SELECT e.position, e.d ->> 'queue' AS queue, e.d ->> 'uid' AS uid,
               (e.d -> 'owners' -> 0 ->> 'kind') || '/' || (e.d -> 'owners' -> 0 ->> 'name') AS owner
        FROM (
            SELECT e.position, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'AdmissionWorkloadObserved'
            OFFSET 0
        ) e
    ), owned AS MATERIALIZED (
        SELECT e.position, e.d ->> 'uid' AS uid, (e.d -> 'owner' ->> 'kind') || '/' || (e.d -> 'owner' ->> 'name') AS owner
        FROM (
            SELECT e.position, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = substring(s.stream FROM 11) AND e.type = 'WorkloadObserved'
            OFFSET 0
        ) e
    ), turn AS (
        SELECT g.position, g.at, true AS given_up FROM given_up g WHERE g.log = s.log
        UNION ALL
        SELECT n.position, n.at, false
        FROM given_up g
        CROSS JOIN LATERAL (SELECT e.position, e.at FROM entry e WHERE e.position > g.position ORDER BY e.position LIMIT 1) n
        WHERE g.log = s.log
    )
    SELECT w.queue, coalesce(o.owner, w.owner) AS owner, i.cluster_queue, i.flavor, i.resource,
           CASE WHEN i.resource = 'cpu' THEN i.held / 1000 ELSE i.held END AS amount, i.since, i.until, i.position, i.last_position
    FROM (
        SELECT b.*, b.at AS since, lead(b.at) OVER kept AS until, lead(b.position) OVER kept AS last_position
        FROM (
            SELECT a.position, a.at, a.cluster_queue, a.flavor, a.resource,
                   CASE WHEN NOT a.given_up
                   THEN sum(a.amount) OVER (PARTITION BY a.cluster_queue, a.flavor, a.resource ORDER BY a.position) END AS held
            FROM (
                SELECT m.position, m.at, m.cluster_queue, m.flavor, m.resource, sum(m.amount) AS amount, bool_or(m.given_up) AS given_up
                FROM (
                    SELECT p.*, false AS given_up FROM posted p
                    UNION ALL
                    SELECT t.position, t.at, p.cluster_queue, p.flavor, p.resource, 0, t.given_up
                    FROM turn t
                    CROSS JOIN (SELECT DISTINCT p.cluster_queue, p.flavor, p.resource FROM posted p) p
                ) m
                GROUP BY m.position, m.at, m.cluster_queue, m.flavor, m.resource
            ) a
        ) b
        WINDOW kept AS (PARTITION BY b.cluster_queue, b.flavor, b.resource ORDER BY b.position)
    ) i
    LEFT JOIN LATERAL (
        SELECT a.queue, a.uid, a.owner FROM shown a WHERE a.position < i.position ORDER BY a.position DESC LIMIT 1
    ) w ON true
    LEFT JOIN LATERAL (
        SELECT x.owner FROM owned x
        WHERE x.position <= coalesce(i.last_position, 9223372036854775807) AND coalesce(x.uid = w.uid, true)
        ORDER BY x.position DESC LIMIT 1
    ) o ON true
    WHERE i.held > 0
) q
WHERE s.stream LIKE 'admission/workload/%';
