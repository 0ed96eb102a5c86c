-- The labels of each job, from the template that its newest observation names. Of a template nothing else is shown: `controlplane.bodies` is
-- not for readers. Where a template was stored without what is redacted, `kept` has its hash. From `streams` to `events` by the stream, as in 0010.
CREATE VIEW audit.job_labels AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       substring(s.stream FROM '^job/([^/]+)/') AS kind, replace((b.body -> 'labels')::text, '\u0000', '\ufffd')::jsonb AS labels, o.at AS since, o.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT e.recorded_at AS at, e.position, coalesce(e.data #>> '{kept,template}', e.data ->> 'template') AS template
    FROM controlplane.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'JobObserved'
    ORDER BY e.position DESC LIMIT 1
) o
LEFT JOIN controlplane.bodies b ON b.hash = CASE WHEN o.template ~ '^[0-9a-f]{64}$' THEN decode(o.template, 'hex') END
WHERE s.stream LIKE 'job/%';
