-- As in 0022: the Workload itself on the management cluster, and of a time in which it has a cluster the parts in which that was out of
-- reach. What happened to the cluster meanwhile is a range of positions of the index of connections.
SELECT p.log, p.namespace, p.name, p.queue, p.owner, '@management' AS cluster, p.attempt, i.since, i.until,
       CASE WHEN i.lost THEN p.cluster || ' to come back'
           WHEN p.refused IS NOT NULL THEN 'its admission check, which is Rejected, to be reset'
           ELSE CASE p.phase WHEN 'Pending' THEN 'quota' WHEN 'Inactive' THEN 'somebody to activate it' WHEN 'Reserved' THEN 'its nomination'
               WHEN 'Nominated' THEN 'a cluster to admit it' WHEN 'Chosen' THEN 'its job on ' || p.cluster
               WHEN 'Admitted' THEN p.cluster || ' to start its job'
               WHEN 'Retry' THEN 'Kueue to evict it' WHEN 'Rejected' THEN 'Kueue to deactivate it'
               ELSE 'its quota to be given back' END END AS waits_for,
       coalesce(CASE WHEN i.lost THEN i.reason ELSE p.refused ->> 'name' END, p.reason) AS reason,
       coalesce(CASE WHEN i.lost THEN i.message WHEN p.refused IS NOT NULL THEN coalesce(p.refused ->> 'message', '') END, p.message) AS message,
       i.position
FROM read_models.phase_intervals p
CROSS JOIN LATERAL (
    SELECT p.since, p.until, false AS lost, NULL::text AS reason, NULL::text AS message, p.position
    WHERE p.phase NOT IN ('Admitted', 'Running')
    UNION ALL
    SELECT greatest(t.at, p.since), coalesce(t.next_at, p.until), t.lost, t.reason, t.message, t.position
    FROM (
        SELECT b.*, lead(b.at) OVER (ORDER BY b.position) AS next_at
        FROM (
            SELECT a.*, a.lost IS DISTINCT FROM lag(a.lost) OVER (ORDER BY a.position) AS turns
            FROM (
                SELECT p.position, p.since AS at, coalesce(o.lost, false) AS lost, o.reason, o.message
                FROM (SELECT) nothing
                -- what began the absence in which the phase begins: the first loss after the cluster was last connected
                LEFT JOIN LATERAL (
                    SELECT true AS lost, e.reason, coalesce(e.data ->> 'message', '') AS message
                    FROM controlplane.events e
                    WHERE e.log = p.log AND e.stream = 'cluster/' || p.cluster AND e.position < p.position
                      AND e.type IN ('ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
                      AND e.position > coalesce((
                          SELECT c.position FROM controlplane.events c
                          WHERE c.log = p.log AND c.stream = 'cluster/' || p.cluster AND c.position < p.position
                            AND c.type = 'ClusterConnected' ORDER BY c.position DESC LIMIT 1), 0)
                    ORDER BY e.position LIMIT 1
                ) o ON true
                UNION ALL
                SELECT e.position, e.recorded_at, e.type <> 'ClusterConnected', e.reason, coalesce(e.data ->> 'message', '')
                FROM controlplane.events e
                WHERE e.log = p.log AND e.stream = 'cluster/' || p.cluster AND e.position > p.position
                  AND e.position < coalesce(p.last_position, 9223372036854775807) AND e.recorded_at < coalesce(p.until, 'infinity')
                  AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
            ) a
        ) b
        WHERE b.turns
    ) t
    WHERE p.phase IN ('Admitted', 'Running') AND p.cluster IS NOT NULL AND (t.lost OR p.phase = 'Admitted')
) i
WHERE p.phase NOT IN ('Finished', 'Deleting', 'Deleted') AND NOT (p.phase = 'Admitted' AND p.cluster IS NULL)
