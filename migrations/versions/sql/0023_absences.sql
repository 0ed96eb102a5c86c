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
