package sqlsink

import "context"

// Destination is embedded in the destination of a database.
type Destination struct {
	Lifecycle
	Writer[Column]
	db *DB
}

// Use makes the destination write to db, and checks the settings.
func (d *Destination) Use(ctx context.Context, db *DB, s Settings) error {
	d.db, d.Database = db, db
	return d.Writer.Configure(ctx, s)
}

// Teardown implements sdk.Destination.
func (d *Destination) Teardown(context.Context) error {
	if d.db != nil {
		d.db.Disconnect()
	}
	return nil
}
