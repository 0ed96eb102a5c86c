-- What is kept is as the views before say it.
DELETE FROM read_models.runs WHERE cluster = '@management';
DELETE FROM read_models.pending_reasons WHERE cluster = '@management' AND (waits_for LIKE '% to come back' OR waits_for LIKE '% to start its job');
INSERT INTO read_models.pending_reasons
SELECT p.log, p.namespace, p.name, p.queue, p.owner, '@management', p.attempt, p.since, p.until, p.cluster || ' to start its job', p.reason,
       p.message, p.position
FROM read_models.workload_phases p
WHERE p.phase = 'Admitted' AND p.cluster IS NOT NULL;
UPDATE read_models.pending_reasons k SET waits_for = 'quota', reason = p.reason, message = p.message
FROM read_models.workload_phases p
WHERE k.waits_for = 'its admission check, which is Rejected, to be reset' AND p.log = k.log AND p.namespace = k.namespace AND p.name = k.name
  AND p.phase = 'Pending' AND p.since <= k.since AND coalesce(p.until, 'infinity') > k.since;
