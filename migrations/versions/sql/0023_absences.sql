-- What happens to connections is found by its place in the log: a time of a Workload in which its cluster was out of reach is read from
-- this index, and not from all that ever happened to the cluster. It has a row for each such event and no other.
CREATE INDEX events_connection ON controlplane.events (log, stream, position) INCLUDE (type, recorded_at)
    WHERE type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected', 'ClusterForgotten');

-- An absence begins with what comes after a ClusterConnected and is none. Each is looked up for itself, so that a range of positions is one
-- of the index.
CREATE OR REPLACE VIEW audit.cluster_absences AS
SELECT s.log, substring(s.stream FROM '/([^/]+)$') AS cluster, l.recorded_at AS since, n.recorded_at AS until, l.reason, d.d ->> 'message' AS message,
       (d.d ->> 'others')::int AS others, (d.d ->> 'others_connected')::int AS others_connected,
       (SELECT f.data ->> 'by' FROM controlplane.events f
        WHERE f.log = s.log AND f.stream = s.stream AND f.type = 'ClusterForgotten' AND f.position > l.position
          AND f.position < coalesce(n.position, 9223372036854775807) ORDER BY f.position LIMIT 1) AS forgotten_by,
       l.position, n.position AS last_position
FROM controlplane.streams s
JOIN controlplane.events l ON l.log = s.log AND l.stream = s.stream AND l.type IN ('ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
CROSS JOIN LATERAL (
    SELECT b.type FROM controlplane.events b
    WHERE b.log = s.log AND b.stream = s.stream AND b.position < l.position
      AND b.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
    ORDER BY b.position DESC LIMIT 1
) b
LEFT JOIN LATERAL (
    SELECT c.position, c.recorded_at FROM controlplane.events c
    WHERE c.log = s.log AND c.stream = s.stream AND c.position > l.position AND c.type = 'ClusterConnected'
    ORDER BY c.position LIMIT 1
) n ON true
CROSS JOIN LATERAL (SELECT replace(l.data::text, '\u0000', '\ufffd')::jsonb AS d OFFSET 0) d
WHERE s.stream LIKE 'cluster/%' AND b.type = 'ClusterConnected';

-- From each run to the absences that began while it went on, as `cluster_absences` has them: one range of the index, and what was before and
-- what comes after it. `lost_position` is the event that began the absence.
CREATE VIEW read_models.outage_runs AS
SELECT r.log, r.namespace, r.name, r.queue, r.owner, r.cluster, r.attempt, o.since, o.until,
       CASE WHEN r.given_up_at >= o.since AND r.given_up_at <= coalesce(o.until, 'infinity') THEN 'Requeued'
            WHEN r.last_position IS NULL OR r.last_position > o.last_position OR o.last_position IS NULL THEN 'Kept'
            WHEN r.outcome = 'Removed' THEN 'Gone'
            WHEN r.outcome IN ('Evicted', 'Suspended') THEN 'Stopped'
            ELSE 'Finished' END AS became,
       o.until IS NOT NULL AND (r.last_position IS NULL OR r.last_position > o.last_position) AS ran_on,
       r.twice, r.since AS run_since, r.until AS run_until, r.position, o.position AS lost_position
FROM audit.runs r
CROSS JOIN LATERAL (
    SELECT t.at AS since, t.position, coalesce(t.next_at, n.at) AS until, coalesce(t.next_position, n.position) AS last_position
    FROM (
        SELECT b.*, lead(b.position) OVER (ORDER BY b.position) AS next_position, lead(b.at) OVER (ORDER BY b.position) AS next_at
        FROM (
            SELECT a.*, (a.type = 'ClusterConnected') <> lag(a.type = 'ClusterConnected') OVER (ORDER BY a.position) AS turns
            FROM (
                (SELECT e.position, e.recorded_at AS at, e.type FROM controlplane.events e
                 WHERE e.log = r.log AND e.stream = 'cluster/' || r.cluster AND e.position < r.position
                   AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
                 ORDER BY e.position DESC LIMIT 1)
                UNION ALL
                SELECT e.position, e.recorded_at, e.type FROM controlplane.events e
                WHERE e.log = r.log AND e.stream = 'cluster/' || r.cluster AND e.position > r.position
                  AND e.position < coalesce(r.last_position, 9223372036854775807)
                  AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
            ) a
        ) b
        WHERE b.turns
    ) t
    LEFT JOIN LATERAL (
        SELECT e.position, e.recorded_at AS at FROM controlplane.events e
        WHERE t.next_position IS NULL AND e.log = r.log AND e.stream = 'cluster/' || r.cluster AND e.position > t.position
          AND e.type = 'ClusterConnected'
        ORDER BY e.position LIMIT 1
    ) n ON true
    WHERE t.type <> 'ClusterConnected'
    OFFSET 0
) o;

CREATE OR REPLACE VIEW audit.outage_workloads AS
SELECT o.log, o.namespace, o.name, o.queue, o.owner, o.cluster, o.attempt, o.since, o.until, o.became, o.ran_on, o.twice, o.run_since,
       o.run_until, o.position
FROM read_models.outage_runs o;

-- The counts come from one pass over all runs; a query that asks for none of them does not make it, since the join then adds nothing. One
-- column says which absence it is: of two, PostgreSQL would join by the log alone, and compare all absences with all.
CREATE OR REPLACE VIEW audit.outages AS
SELECT a.log, a.cluster, a.since, a.until, a.reason, a.message, a.others, a.others_connected, a.forgotten_by,
       coalesce(c.affected, 0) AS affected, coalesce(c.kept, 0) AS kept, coalesce(c.requeued, 0) AS requeued, coalesce(c.ended, 0) AS ended,
       coalesce(c.ran_on, 0) AS ran_on, coalesce(c.twice, interval '0') AS twice, a.position, a.last_position
FROM audit.cluster_absences a
LEFT JOIN (
    SELECT o.lost_position || '@' || o.log AS absence, count(DISTINCT (o.namespace, o.name)) AS affected,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Kept') AS kept,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Requeued') AS requeued,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became NOT IN ('Kept', 'Requeued')) AS ended,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.ran_on) AS ran_on, sum(o.twice) AS twice
    FROM read_models.outage_runs o
    GROUP BY o.lost_position || '@' || o.log
) c ON c.absence = a.position || '@' || a.log;
