-- Pipelines that are deleted and have a history that is kept, for a while.

CREATE TABLE deleted (
    pipeline_id TEXT    NOT NULL PRIMARY KEY,
    at          INTEGER NOT NULL,
    bytes       INTEGER NOT NULL            -- of its revisions
) STRICT;

INSERT INTO deleted (pipeline_id, at, bytes)
    SELECT pipeline_id, max(at), sum(length(origin) + coalesce(length(spec), 0)) FROM revisions
    WHERE pipeline_id NOT IN (SELECT id FROM pipelines) GROUP BY pipeline_id;

-- The row of the pipeline '' has the greatest epoch of all pipelines that were deleted: epochs
-- of others begin above it, so that none is used again although its row is gone.
INSERT OR REPLACE INTO runs (pipeline_id, epoch)
    SELECT '', coalesce(max(epoch), 0) FROM runs WHERE pipeline_id NOT IN (SELECT id FROM pipelines);
DELETE FROM runs WHERE pipeline_id <> '' AND pipeline_id NOT IN (SELECT id FROM pipelines);
