-- Names are compared byte by byte (COLLATE "C"): their order means nothing to people, and indexes on them are read at every append.
-- One row a log, locked for the length of one append. Positions are given under this lock, so they have no holes and follow commit
-- order. `hash` is the tip of the chain over batches; nothing fills it yet.
CREATE TABLE controlplane.log_head (
    log      text   COLLATE "C" PRIMARY KEY CHECK (log <> ''),
    position bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
    epoch    bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    holder   text   NOT NULL DEFAULT '',
    renewed_at timestamptz NOT NULL DEFAULT '-infinity', -- the holder's last sign of life, by this server's clock
    hash     bytea
) WITH (fillfactor = 50);

-- The version of each stream: what a decision is checked against.
CREATE TABLE controlplane.streams (
    log     text   COLLATE "C" NOT NULL,
    stream  text   COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (log, stream)
) WITH (fillfactor = 70);

-- The newest resourceVersion recorded of each watched object (cluster/incarnation/kind/uid): what makes an observation that is offered
-- twice no event. It cannot be a unique index of `events`, which will be partitioned by position.
CREATE TABLE controlplane.sources (
    log    text   COLLATE "C" NOT NULL,
    source text   COLLATE "C" NOT NULL,
    mark   bigint NOT NULL,
    PRIMARY KEY (log, source)
) WITH (fillfactor = 70);

-- Insert-only, by grant. `data` is narrow; big objects are in `bodies`, named in `data` by their hash. `json` and not `jsonb`: the text is
-- stored as it was written, at half the cost, and the operators -> and ->> work on it all the same.
CREATE TABLE controlplane.events (
    log         text        COLLATE "C" NOT NULL,
    position    bigint      NOT NULL,
    stream      text        COLLATE "C" NOT NULL,
    version     bigint      NOT NULL,
    type        text        NOT NULL,
    schema      smallint    NOT NULL,
    data        json        NOT NULL,
    reason      text        NOT NULL DEFAULT '',
    cluster     text        NOT NULL DEFAULT '',
    caused_by   bigint,
    trace       text        NOT NULL DEFAULT '',
    observed_at timestamptz,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (log, position)
);
CREATE INDEX events_stream ON controlplane.events (log, stream, position);

CREATE TABLE controlplane.bodies (
    hash        bytea       PRIMARY KEY CHECK (length(hash) = 32),
    body        json        NOT NULL,
    recorded_at timestamptz NOT NULL
);

-- One row a commit: the retry of an append whose reply was lost finds itself here. `hash` is for the chain.
CREATE TABLE controlplane.batches (
    log         text        COLLATE "C" NOT NULL,
    first       bigint      NOT NULL,
    last        bigint      NOT NULL,
    batch       uuid        NOT NULL,
    epoch       bigint      NOT NULL,
    recorded_at timestamptz NOT NULL,
    hash        bytea,
    PRIMARY KEY (log, last)
);
CREATE UNIQUE INDEX batches_batch ON controlplane.batches (batch);
