-- The Workload itself on the management cluster, and each of its copies on a worker (below, as in 0009). Of a time in which a Workload has a
-- cluster, the parts in which that was out of reach: it waits for the cluster to come back. `phases_with_checks` is the view of phases with
-- the admission check that rejected one without quota beside it.
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
FROM read_models.phases_with_checks p
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
                LEFT JOIN LATERAL (
                    SELECT e.type <> 'ClusterConnected' AS lost, e.reason, coalesce(e.data ->> 'message', '') AS message
                    FROM controlplane.events e
                    WHERE e.log = p.log AND e.stream = 'cluster/' || p.cluster AND e.position < p.position
                      AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
                    ORDER BY e.version DESC LIMIT 1
                ) o ON true
                UNION ALL
                SELECT e.position, e.recorded_at, e.type <> 'ClusterConnected', e.reason, coalesce(e.data ->> 'message', '')
                FROM controlplane.events e
                WHERE e.log = p.log AND e.stream = 'cluster/' || p.cluster AND e.position > p.position
                  AND e.recorded_at < coalesce(p.until, 'infinity')
                  AND e.type IN ('ClusterConnected', 'ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
            ) a
        ) b
        WHERE b.turns
    ) t
    WHERE p.phase IN ('Admitted', 'Running') AND p.cluster IS NOT NULL AND (t.lost OR p.phase = 'Admitted')
) i
WHERE p.phase NOT IN ('Finished', 'Deleting', 'Deleted') AND NOT (p.phase = 'Admitted' AND p.cluster IS NULL)
