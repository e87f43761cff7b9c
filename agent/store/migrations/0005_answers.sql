-- What requests with an Idempotency-Key were answered.

CREATE TABLE answers (
    id      INTEGER PRIMARY KEY,
    key     TEXT    NOT NULL UNIQUE,
    request BLOB    NOT NULL,               -- SHA-256
    at      INTEGER NOT NULL,
    status  INTEGER NOT NULL,
    header  TEXT    NOT NULL,               -- JSON: name → values
    body    BLOB    NOT NULL
) STRICT;

CREATE INDEX answers_at ON answers (at);
