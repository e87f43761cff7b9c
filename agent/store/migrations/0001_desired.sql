-- Desired state: what somebody declared, and how it came to be so.
--
-- Times are nanoseconds since 1970 in UTC, 0 for "never". Documents (spec, doc) are
-- JSON in the vocabulary of package spec, so that a field added there needs no
-- migration; what statements search by is a column.

PRAGMA application_id = 1668247140; -- 'cond': tells this file from other databases

-- One row per pipeline, withdrawn ones included until their clean-up is done.
CREATE TABLE pipelines (
    id          TEXT    NOT NULL PRIMARY KEY,
    spec        TEXT    NOT NULL,           -- spec.Pipeline
    owner_kind  TEXT    NOT NULL,           -- 'file' or 'api'
    owner_path  TEXT    NOT NULL,
    owner_line  INTEGER NOT NULL,
    generation  INTEGER NOT NULL CHECK (generation > 0),
    digest      TEXT    NOT NULL,
    override    TEXT    NOT NULL DEFAULT '', -- status asked for over the API
    withdrawn   INTEGER NOT NULL DEFAULT 0,
    purge       INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;

-- The last changes of each pipeline. They outlive the pipeline.
CREATE TABLE revisions (
    pipeline_id TEXT    NOT NULL,
    number      INTEGER NOT NULL CHECK (number > 0),
    generation  INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    origin      TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    spec        TEXT,                       -- spec.Pipeline; NULL unless the action is 'declare'
    PRIMARY KEY (pipeline_id, number)
) STRICT, WITHOUT ROWID;

-- What is known of the pipeline files.
CREATE TABLE files (
    id  TEXT NOT NULL PRIMARY KEY,          -- path
    doc TEXT NOT NULL                       -- spec.FileState
) STRICT;

-- What happened lately, for people to read. Numbers are never used again.
CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    pipeline_id TEXT    NOT NULL,
    file        TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    message     TEXT    NOT NULL
) STRICT;
