-- The absences that began while a run r went on, as `cluster_absences` has them: one range of the index, and what was before and what comes after it.
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
