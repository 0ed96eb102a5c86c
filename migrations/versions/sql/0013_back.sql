-- One table again: the first partition, with the rows of the others.
DO $$
DECLARE
    part  regclass;
    views jsonb;
BEGIN
    LOCK TABLE controlplane.events IN ACCESS EXCLUSIVE MODE;
    views := controlplane.views_of_events();
    IF to_regclass('controlplane.events_1') IS NULL THEN -- the oldest that is there takes its place
        SELECT i.inhrelid::regclass INTO part FROM pg_inherits i WHERE i.inhparent = 'controlplane.events'::regclass
        ORDER BY substring(i.inhrelid::regclass::text FROM '\d+$')::bigint LIMIT 1;
        EXECUTE format('ALTER INDEX controlplane.%I RENAME TO events_1_pkey', (SELECT relname FROM pg_class WHERE oid = part) || '_pkey');
        EXECUTE format('ALTER INDEX controlplane.%I RENAME TO events_1_version', (SELECT relname FROM pg_class WHERE oid = part) || '_version');
        EXECUTE format('ALTER TABLE %s RENAME TO events_1', part);
    END IF;
    ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1;
    INSERT INTO controlplane.events_1 SELECT * FROM controlplane.events;
    ALTER TABLE controlplane.events RENAME TO events_in_partitions;
    ALTER INDEX controlplane.events_pkey RENAME TO events_in_partitions_pkey;
    ALTER TABLE controlplane.events_1 RENAME TO events;
    ALTER INDEX controlplane.events_1_pkey RENAME TO events_pkey;
    ALTER INDEX controlplane.events_1_version RENAME TO events_version;
    PERFORM controlplane.exchange_events(views);
    DROP TABLE controlplane.events_in_partitions;
END
$$;
GRANT SELECT ON controlplane.events TO controlplane_service;
DROP FUNCTION controlplane.room_ahead, controlplane.make_room, controlplane.partitions_end, controlplane.exchange_events,
    controlplane.views_of_events,    controlplane.partition_size;
ALTER TABLE controlplane.log_head DROP COLUMN room;
