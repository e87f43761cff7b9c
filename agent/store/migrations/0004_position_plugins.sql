-- The name of the plugin that can read the position; '' when it was not kept yet.
ALTER TABLE positions ADD COLUMN plugin TEXT NOT NULL DEFAULT '';
