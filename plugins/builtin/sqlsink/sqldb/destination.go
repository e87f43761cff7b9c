package sqldb

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// Destination is embedded in that of a database.
type Destination struct {
	sqlsink.Lifecycle
	sqlsink.Writer[Column]
	db *DB
}

// Use has the destination write to db, and checks the settings.
func (d *Destination) Use(db *DB, s sqlsink.Settings) error {
	d.db, d.Database = db, db
	return d.Writer.Configure(s)
}

// Teardown implements sdk.Destination.
func (d *Destination) Teardown(context.Context) error {
	if d.db != nil {
		d.db.Disconnect()
	}
	return nil
}
