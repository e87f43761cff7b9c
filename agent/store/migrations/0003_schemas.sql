-- The schema registry. A text is kept once, whatever subjects it belongs to.

CREATE TABLE schemas (
    id   INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,                  -- 1: Avro
    hash BLOB    NOT NULL,                  -- SHA-256 of the text
    text TEXT    NOT NULL,
    UNIQUE (hash, type)
) STRICT;

CREATE TABLE schema_versions (
    subject   TEXT    NOT NULL,
    version   INTEGER NOT NULL CHECK (version > 0),
    schema_id INTEGER NOT NULL REFERENCES schemas (id),
    PRIMARY KEY (subject, version),
    UNIQUE (subject, schema_id)
) STRICT, WITHOUT ROWID;
