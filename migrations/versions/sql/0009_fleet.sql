-- What became of clusters and of the configuration, and the functions. The functions read the views, with the rights of whoever calls them.
CREATE VIEW audit.cluster_absences AS
SELECT s.log, substring(s.stream FROM '/([^/]+)$') AS cluster, i.since, i.until, i.reason, i.message, i.others, i.others_connected,
       i.forgotten_by, i.position, i.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT c.type, c.at AS since, c.next_at AS until, c.reason, c.d ->> 'message' AS message, (c.d ->> 'others')::int AS others,
           (c.d ->> 'others_connected')::int AS others_connected,
           (SELECT f.data ->> 'by' FROM controlplane.events f
            WHERE f.log = s.log AND f.stream = s.stream AND f.type = 'ClusterForgotten' AND f.position > c.position
              AND f.position < coalesce(c.next_position, 9223372036854775807) ORDER BY f.position LIMIT 1) AS forgotten_by,
           c.position, c.next_position AS last_position
    FROM (
        SELECT b.*, lead(b.position) OVER (ORDER BY b.position) AS next_position, lead(b.at) OVER (ORDER BY b.position) AS next_at
        FROM (
            SELECT e.position, e.type, e.recorded_at AS at, e.reason, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d,
                   (e.type = 'ClusterConnected') IS DISTINCT FROM lag(e.type = 'ClusterConnected') OVER (ORDER BY e.position) AS turns,
                   count(*) FILTER (WHERE e.type = 'ClusterConnected') OVER (ORDER BY e.position) > 0 AS was_connected
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = s.stream
              AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
        ) b
        WHERE b.turns AND b.was_connected
    ) c
) i
WHERE s.stream LIKE 'cluster/%' AND i.type <> 'ClusterConnected';

-- From each run to the absences of its cluster, which are few: the other way round all runs would be looked for once for each absence.
CREATE VIEW audit.outage_workloads AS
WITH absence AS MATERIALIZED (SELECT * FROM audit.cluster_absences)
SELECT r.log, r.namespace, r.name, r.queue, r.owner, r.cluster, r.attempt, o.since, o.until,
       CASE WHEN r.given_up_at >= o.since AND r.given_up_at <= coalesce(o.until, 'infinity') THEN 'Requeued'
            WHEN r.last_position IS NULL OR r.last_position > o.last_position OR o.last_position IS NULL THEN 'Kept'
            WHEN r.outcome = 'Removed' THEN 'Gone'
            WHEN r.outcome IN ('Evicted', 'Suspended') THEN 'Stopped'
            ELSE 'Finished' END AS became,
       o.until IS NOT NULL AND (r.last_position IS NULL OR r.last_position > o.last_position) AS ran_on,
       r.twice, r.since AS run_since, r.until AS run_until, r.position
FROM audit.runs r
CROSS JOIN LATERAL (
    SELECT * FROM absence a
    WHERE a.log = r.log AND a.cluster = r.cluster AND r.position < a.position
      AND coalesce(r.last_position, 9223372036854775807) > a.position
    OFFSET 0
) o;

-- The counts come from one pass over all runs; a query that asks for none of them does not make it.
CREATE VIEW audit.outages AS
WITH counted AS MATERIALIZED (
    SELECT o.log, o.cluster, o.since, count(DISTINCT (o.namespace, o.name)) AS affected,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Kept') AS kept,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Requeued') AS requeued,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became NOT IN ('Kept', 'Requeued')) AS ended,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.ran_on) AS ran_on, sum(o.twice) AS twice
    FROM audit.outage_workloads o
    GROUP BY o.log, o.cluster, o.since
)
SELECT a.log, a.cluster, a.since, a.until, a.reason, a.message, a.others, a.others_connected, a.forgotten_by,
       coalesce((SELECT c.affected FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), 0) AS affected,
       coalesce((SELECT c.kept FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), 0) AS kept,
       coalesce((SELECT c.requeued FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), 0) AS requeued,
       coalesce((SELECT c.ended FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), 0) AS ended,
       coalesce((SELECT c.ran_on FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), 0) AS ran_on,
       coalesce((SELECT c.twice FROM counted c WHERE c.log = a.log AND c.cluster = a.cluster AND c.since = a.since), interval '0') AS twice,
       a.position, a.last_position
FROM audit.cluster_absences a;

-- The name is in the partition by the very expression that is the column, so that a condition on it reaches the streams.
CREATE VIEW audit.config_changes AS
SELECT s.log, c.kind, substring(s.stream FROM '/([^/]+)$') AS name, f.field, f.old, f.new,
       CASE WHEN c.d IS NULL THEN 'Deleted' WHEN c.before IS NULL THEN 'Created' ELSE 'Changed' END AS change,
       c.at AS since, lead(c.at) OVER (PARTITION BY s.log, substring(s.stream FROM '/([^/]+)$'), c.kind, s.stream, f.field ORDER BY c.position) AS until, c.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT b.position, b.at, b.kind, b.d, lag(b.d) OVER (PARTITION BY b.kind ORDER BY b.position) AS before
    FROM (
        SELECT e.position, e.recorded_at AS at,
               CASE e.type WHEN 'QuotaQueueObserved' THEN 'ClusterQueue' WHEN 'QuotaQueueGone' THEN 'ClusterQueue'
                   ELSE regexp_replace(e.type, '(Observed|Gone)$', '') END AS kind,
               CASE WHEN e.type LIKE '%Observed' THEN replace(e.data::text, '\u0000', '\ufffd')::jsonb
                   - '{uid,namespace,name,resource_version,generation,conditions,kept}'::text[] END AS d
        FROM controlplane.events e
        WHERE e.log = s.log AND e.stream = s.stream
          AND e.type IN ('MultiKueueConfigObserved', 'MultiKueueConfigGone', 'MultiKueueClusterObserved', 'MultiKueueClusterGone',
                         'AdmissionCheckObserved', 'AdmissionCheckGone', 'ClusterQueueObserved', 'ClusterQueueGone',
                         'LocalQueueObserved', 'LocalQueueGone', 'QuotaQueueObserved', 'QuotaQueueGone')
    ) b
) c
CROSS JOIN LATERAL (
    SELECT coalesce(o.key, n.key) AS field, o.value AS old, n.value AS new
    FROM jsonb_each(c.before) o FULL JOIN jsonb_each(c.d) n ON n.key = o.key
    WHERE o.value IS DISTINCT FROM n.value
) f
WHERE s.stream LIKE 'multikueueconfig/%' OR s.stream LIKE 'cluster/%' OR s.stream LIKE 'admissioncheck/%'
   OR s.stream LIKE 'clusterqueue/%' OR s.stream LIKE 'localqueue/%' OR s.stream LIKE 'quota/queue/%';

-- The defaults are those of PolicyInForce in controlplane/controllers/connectivity/events.py: a field that has its default is left out.
CREATE VIEW audit.policy_in_force AS
SELECT s.log, p.at AS since, p.until,
       ARRAY(SELECT jsonb_array_elements_text(p.d -> 'controllers')) AS controllers, p.d ->> 'origin' AS origin,
       p.d ->> 'controller_name' AS controller_name, ARRAY(SELECT jsonb_array_elements_text(p.d -> 'kinds')) AS kinds,
       ARRAY(SELECT jsonb_array_elements_text(p.d -> 'judged')) AS judged, p.d ->> 'execution_policy' AS execution_policy,
       make_interval(secs => (p.d ->> 'worker_lost_timeout_seconds')::float) AS worker_lost_timeout,
       make_interval(secs => (p.d ->> 'gc_interval_seconds')::float) AS gc_interval,
       make_interval(secs => (p.d ->> 'status_interval_seconds')::float) AS status_interval,
       make_interval(secs => (p.d ->> 'readmission_grace_seconds')::float) AS readmission_grace,
       make_interval(secs => (p.d ->> 'refusal_pause_seconds')::float) AS refusal_pause,
       make_interval(secs => (p.d ->> 'loser_patience_seconds')::float) AS loser_patience,
       (p.d ->> 'requeues_per_minute')::int AS requeues_per_minute, (p.d ->> 'mass_outage_share')::float AS mass_outage_share,
       coalesce(p.d ->> 'dispatcher', 'kueue.x-k8s.io/multikueue-dispatcher-all-at-once') AS dispatcher,
       coalesce((p.d ->> 'step_size')::int, 3) AS step_size, coalesce(p.d ->> 'pod_gate', 'own') AS pod_gate,
       make_interval(secs => coalesce((p.d ->> 'dispatch_round_seconds')::float, 300)) AS dispatch_round,
       make_interval(secs => coalesce((p.d ->> 'scoring_window_seconds')::float, 3600)) AS scoring_window,
       coalesce(p.d -> 'scoring', '{}') AS scoring, coalesce(p.d ->> 'orchestrated_preemption', 'false') = 'true' AS orchestrated_preemption,
       p.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.recorded_at AS at, lead(e.recorded_at) OVER (ORDER BY e.position) AS until,
           replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
    FROM controlplane.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'PolicyInForce'
) p
WHERE s.stream = 'service';

CREATE FUNCTION audit.causes(log text, "position" bigint)
RETURNS TABLE (depth int, "position" bigint, recorded_at timestamptz, stream text, type text, reason text, cluster text, data jsonb)
LANGUAGE sql STABLE ROWS 10 AS $$
    WITH RECURSIVE chain AS (
        SELECT 0 AS depth, e.position, e.recorded_at, e.stream, e.type, e.reason, e.cluster, e.data, e.caused_by
        FROM audit.events e WHERE e.log = $1 AND e.position = $2
        UNION ALL
        SELECT c.depth + 1, e.position, e.recorded_at, e.stream, e.type, e.reason, e.cluster, e.data, e.caused_by
        FROM chain c JOIN audit.events e ON e.log = $1 AND e.position = c.caused_by AND e.position < c.position
    )
    SELECT c.depth, c.position, c.recorded_at, c.stream, c.type, c.reason, c.cluster, c.data FROM chain c ORDER BY c.depth
$$;

-- By bisection: what is recorded at a position is recorded no later than what comes after it.
CREATE FUNCTION audit.position_at(log text, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    low  bigint := 0;
    high bigint := (SELECT e.position FROM audit.events e WHERE e.log = $1 ORDER BY e.position DESC LIMIT 1);
    mid  bigint;
BEGIN
    WHILE low < high LOOP
        mid := (low + high + 1) / 2;
        IF (SELECT e.recorded_at FROM audit.events e WHERE e.log = $1 AND e.position = mid) <= $2 THEN
            low := mid;
        ELSE
            high := mid - 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;

CREATE FUNCTION audit.as_of(log text, at timestamptz)
RETURNS TABLE (namespace text, name text, queue text, owner text, phase text, cluster text, attempt int, since timestamptz, reason text,
               message text)
LANGUAGE sql STABLE AS $$
    WITH absence AS MATERIALIZED (
        SELECT a.cluster FROM audit.cluster_absences a WHERE a.log = $1 AND a.since <= $2 AND (a.until > $2 OR a.until IS NULL)
    )
    SELECT p.namespace, p.name, p.queue, p.owner,
           CASE WHEN p.phase IN ('Admitted', 'Running') AND EXISTS (SELECT FROM absence a WHERE a.cluster = p.cluster) THEN 'Lost' ELSE p.phase END,
           p.cluster, p.attempt, p.since, p.reason, p.message
    FROM audit.workload_phases p
    WHERE p.log = $1 AND p.since <= $2 AND (p.until > $2 OR p.until IS NULL) AND p.phase <> 'Deleted'
$$;

CREATE FUNCTION audit.fleet_at(log text, at timestamptz)
RETURNS TABLE (cluster text, phase text, since timestamptz, reason text, message text, incarnation text, location text, labels jsonb,
               configs text[])
LANGUAGE sql STABLE AS $$
    SELECT c.cluster, c.phase, c.since, c.reason, c.message, c.incarnation, m.data ->> 'location', coalesce(m.data -> 'labels', '{}'),
           ARRAY(SELECT f.name FROM audit.config_changes f
                 WHERE f.log = $1 AND f.kind = 'MultiKueueConfig' AND f.field = 'clusters' AND f.new ? c.cluster
                   AND f.since <= $2 AND (f.until > $2 OR f.until IS NULL) ORDER BY f.name)
    FROM audit.cluster_connectivity c
    LEFT JOIN LATERAL (
        SELECT e.data FROM audit.events e
        WHERE e.log = $1 AND e.stream = 'cluster/' || c.cluster AND e.type IN ('MultiKueueClusterObserved', 'MultiKueueClusterGone')
          AND e.recorded_at <= $2 ORDER BY e.version DESC LIMIT 1
    ) m ON true
    WHERE c.log = $1 AND c.since <= $2 AND (c.until > $2 OR c.until IS NULL)
$$;
