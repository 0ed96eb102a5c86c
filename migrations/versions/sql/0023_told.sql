-- The events, without the ends of objects that another one of the same name had followed: a new list shows the new object before it says
-- that the old one is gone, and that is no end of the new one. For what looks at few of them; the views of Workloads say it of a whole history.
CREATE VIEW read_models.told AS
SELECT e.log, e.position, e.stream, e.version, e.type, e.data, e.recorded_at
FROM controlplane.events e
WHERE e.type NOT LIKE '%Gone' OR coalesce((
    SELECT replace(o.data::text, '\u0000', '\ufffd')::jsonb ->> 'uid' = replace(e.data::text, '\u0000', '\ufffd')::jsonb ->> 'uid'
    FROM controlplane.events o
    WHERE o.log = e.log AND o.stream = e.stream AND o.version < e.version AND o.type = regexp_replace(e.type, 'Gone$', 'Observed')
      AND o.cluster = e.cluster
      AND replace(o.data::text, '\u0000', '\ufffd')::jsonb ->> 'name' = replace(e.data::text, '\u0000', '\ufffd')::jsonb ->> 'name'
    ORDER BY o.version DESC LIMIT 1), true);
