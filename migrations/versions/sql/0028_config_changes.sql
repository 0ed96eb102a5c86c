-- As in 0027, and what admission rests on where this service reserves quota: each field of its spec. Who wrote that is not recorded.
CREATE OR REPLACE VIEW audit.config_changes AS
SELECT s.log, c.kind, substring(s.stream FROM '/([^/]+)$') AS name, f.field, f.old, f.new,
       CASE WHEN c.d IS NULL THEN 'Deleted' WHEN c.before IS NULL THEN 'Created' ELSE 'Changed' END AS change,
       c.at AS since, lead(c.at) OVER (PARTITION BY s.log, substring(s.stream FROM '/([^/]+)$'), c.kind, s.stream, f.field ORDER BY c.position) AS until, c.position,
       nullif(c.manager, '') AS changed_by,
       CASE WHEN s.stream ~ '^(admission/)?localqueue/' THEN substring(s.stream FROM '/([^/]+)/[^/]+$') END AS namespace
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT b.position, b.at, b.kind, b.manager, lag(b.d) OVER (PARTITION BY b.kind ORDER BY b.position) AS before, b.d
    FROM (
        SELECT o.position, o.at, o.kind, o.d ->> 'manager' AS manager,
               CASE WHEN o.type NOT LIKE '%Observed' THEN NULL
                    WHEN s.stream LIKE 'admission/%' THEN o.d
                        - '{uid,namespace,name,resource_version,generation,conditions,kept,manager,spec,status,finalizers}'::text[]
                        || coalesce((SELECT jsonb_object_agg('spec.' || x.key, x.value) FROM jsonb_each(o.d -> 'spec') x), '{}')
                    ELSE o.d - '{uid,namespace,name,resource_version,generation,conditions,kept,manager}'::text[] END AS d
        FROM (
            SELECT e.position, e.recorded_at AS at, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d,
                   CASE WHEN e.type LIKE 'QuotaQueue%' THEN 'ClusterQueue' WHEN e.type LIKE 'AdmissionFlavor%' THEN 'ResourceFlavor'
                        WHEN e.type LIKE 'AdmissionCheck%' THEN 'AdmissionCheck'
                        ELSE regexp_replace(e.type, '^Admission|(Observed|Gone)$', '', 'g') END AS kind
            FROM read_models.told e
            WHERE e.log = s.log AND e.stream = s.stream
              AND e.type IN ('MultiKueueConfigObserved', 'MultiKueueConfigGone', 'MultiKueueClusterObserved', 'MultiKueueClusterGone',
                             'AdmissionCheckObserved', 'AdmissionCheckGone', 'ClusterQueueObserved', 'ClusterQueueGone',
                             'LocalQueueObserved', 'LocalQueueGone', 'QuotaQueueObserved', 'QuotaQueueGone',
                             'AdmissionClusterQueueObserved', 'AdmissionClusterQueueGone', 'AdmissionCohortObserved', 'AdmissionCohortGone',
                             'AdmissionLocalQueueObserved', 'AdmissionLocalQueueGone', 'AdmissionFlavorObserved', 'AdmissionFlavorGone')
        ) o
    ) b
) c
CROSS JOIN LATERAL (
    SELECT coalesce(o.key, n.key) AS field, o.value AS old, n.value AS new
    FROM jsonb_each(c.before) o FULL JOIN jsonb_each(c.d) n ON n.key = o.key
    WHERE o.value IS DISTINCT FROM n.value
) f
-- what two controllers see of an object is told of once
WHERE NOT (s.stream LIKE 'quota/queue/%' AND f.field IN ('deleting', 'checks') AND EXISTS (
          SELECT FROM controlplane.events o
          WHERE o.log = s.log AND o.stream = 'clusterqueue/' || substring(s.stream FROM '/([^/]+)$')
            AND o.type = 'ClusterQueueObserved' AND (f.field = 'deleting' OR replace(o.data::text, '\u0000', '\ufffd')::jsonb ? 'checks')))
  AND NOT (s.stream LIKE 'admission/%' AND f.field = 'deleting' AND EXISTS (
          SELECT FROM controlplane.events o
          WHERE o.log = s.log AND o.stream = substring(s.stream FROM 11) AND o.type IN ('ClusterQueueObserved', 'LocalQueueObserved')
          OFFSET 0)) -- else all events of these types would be read first
  AND (s.stream LIKE 'multikueueconfig/%' OR s.stream LIKE 'cluster/%' OR s.stream LIKE 'admissioncheck/%'
       OR s.stream LIKE 'clusterqueue/%' OR s.stream LIKE 'localqueue/%' OR s.stream LIKE 'quota/queue/%'
       OR s.stream LIKE 'admission/clusterqueue/%' OR s.stream LIKE 'admission/cohort/%' OR s.stream LIKE 'admission/localqueue/%'
       OR s.stream LIKE 'admission/flavor/%');
