-- Dead letters, narrow so that filters read little; what is large is in bodies.
CREATE TABLE letters (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline_id TEXT    NOT NULL,
    hash        BLOB    NOT NULL UNIQUE, -- of what makes it the same record refused at the same place
    at          INTEGER NOT NULL,        -- Unix nanoseconds; ascends with id
    last_at     INTEGER NOT NULL,
    times       INTEGER NOT NULL,
    source_id   TEXT    NOT NULL,
    stage       TEXT    NOT NULL,
    refused_by  TEXT    NOT NULL,
    entry       TEXT    NOT NULL,        -- JSON: where a replay enters
    generation  INTEGER NOT NULL,
    digest      TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    stopped     INTEGER NOT NULL,
    edited      INTEGER NOT NULL DEFAULT 0, -- how often
    bytes       INTEGER NOT NULL
) STRICT;
CREATE INDEX letters_by_pipeline ON letters (pipeline_id, id);
CREATE INDEX letters_by_time ON letters (pipeline_id, at);

CREATE TABLE bodies (
    id       INTEGER PRIMARY KEY REFERENCES letters (id) ON DELETE CASCADE,
    record   BLOB NOT NULL, -- in the JSON form of opencdc, which keeps whole numbers exact; see exact.go
    refusals TEXT NOT NULL  -- JSON
) STRICT;

-- What there is of each pipeline, so that bounds cost no scan.
CREATE TABLE totals (
    pipeline_id TEXT    PRIMARY KEY,
    count       INTEGER NOT NULL DEFAULT 0,
    bytes       INTEGER NOT NULL DEFAULT 0,
    kept        INTEGER NOT NULL DEFAULT 0,
    dropped     INTEGER NOT NULL DEFAULT 0
) STRICT;
