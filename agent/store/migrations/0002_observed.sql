-- What was observed and what a run has to find again after a crash.

-- The last state of each pipeline.
CREATE TABLE states (
    id  TEXT NOT NULL PRIMARY KEY,          -- of the pipeline
    doc TEXT NOT NULL                       -- spec.State
) STRICT;

-- Every connector that was ever started and not cleaned up since.
CREATE TABLE connectors (
    id          TEXT NOT NULL PRIMARY KEY,  -- qualified
    doc         TEXT NOT NULL,              -- spec.ConnectorState
    pipeline_id TEXT GENERATED ALWAYS AS (doc ->> 'pipelineId') STORED
) STRICT;

CREATE INDEX connectors_by_pipeline ON connectors (pipeline_id);

-- The run of each pipeline that may save positions. A row is never deleted, so that
-- an epoch is never used again.
CREATE TABLE runs (
    pipeline_id TEXT    NOT NULL PRIMARY KEY,
    epoch       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where to resume each source: the position of the last record that every
-- destination has, and all records before it.
CREATE TABLE positions (
    connector_id TEXT    NOT NULL PRIMARY KEY, -- qualified
    pipeline_id  TEXT    NOT NULL,
    position     BLOB    NOT NULL CHECK (length(position) > 0),
    epoch        INTEGER NOT NULL,          -- of the run that saved it
    sequence     INTEGER NOT NULL           -- records settled in that run
) STRICT, WITHOUT ROWID;

CREATE INDEX positions_by_pipeline ON positions (pipeline_id);
