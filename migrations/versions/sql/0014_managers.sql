-- As in 0009, and who changed it: the field manager that the API server names as the last that wrote the object, its status apart.
-- The name is in the partition by the very expression that is the column, so that a condition on it reaches the streams.
CREATE OR REPLACE VIEW audit.config_changes AS
SELECT s.log, c.kind, substring(s.stream FROM '/([^/]+)$') AS name, f.field, f.old, f.new,
       CASE WHEN c.d IS NULL THEN 'Deleted' WHEN c.before IS NULL THEN 'Created' ELSE 'Changed' END AS change,
       c.at AS since, lead(c.at) OVER (PARTITION BY s.log, substring(s.stream FROM '/([^/]+)$'), c.kind, s.stream, f.field ORDER BY c.position) AS until, c.position,
       nullif(c.manager, '') AS changed_by
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT b.position, b.at, b.kind, b.d, b.manager, lag(b.d) OVER (PARTITION BY b.kind ORDER BY b.position) AS before
    FROM (
        SELECT e.position, e.recorded_at AS at,
               CASE e.type WHEN 'QuotaQueueObserved' THEN 'ClusterQueue' WHEN 'QuotaQueueGone' THEN 'ClusterQueue'
                   ELSE regexp_replace(e.type, '(Observed|Gone)$', '') END AS kind,
               CASE WHEN e.type LIKE '%Observed' THEN replace(e.data::text, '\u0000', '\ufffd')::jsonb
                   - '{uid,namespace,name,resource_version,generation,conditions,kept,manager}'::text[] END AS d,
               e.data ->> 'manager' AS manager
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
