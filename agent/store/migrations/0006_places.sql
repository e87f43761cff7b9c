-- Where in the file of the owner the values of the pipeline stand (spec.Places).
ALTER TABLE pipelines ADD COLUMN owner_places TEXT NOT NULL DEFAULT '';
