#!/bin/sh
# Run once by the PostgreSQL image in an empty data directory: the installation's roles, with the passwords of docker-compose.yml.
# In: OWNER_PASSWORD, SERVICE_PASSWORD and READER_PASSWORD. psql quotes them (:'…').
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres --file /roles.sql
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname controlplane --file /rights.sql
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set "owner=$OWNER_PASSWORD" --set "service=$SERVICE_PASSWORD" --set "reader=$READER_PASSWORD" <<'SQL'
ALTER ROLE controlplane_owner PASSWORD :'owner';
ALTER ROLE controlplane_service PASSWORD :'service';
ALTER ROLE controlplane_reader LOGIN PASSWORD :'reader';
SQL
