package sqlsink

import (
	"context"
	"fmt"
)

// read creates the table of positions if it does not exist, and reads it.
func (d *DB) read(ctx context.Context, ledger *Ledger) error {
	if err := d.open(ctx, ledger); err != nil {
		return fmt.Errorf("cannot read the position table %s: %w", d.Positions, err)
	}
	return nil
}

func (d *DB) open(ctx context.Context, ledger *Ledger) error {
	query := "SELECT batch, hashes FROM " + d.name(d.Positions) + " WHERE connector = ? ORDER BY batch"
	rows, err := d.conn.QueryContext(ctx, query, ledger.Connector)
	if err != nil && d.Dialect.Missing(err) {
		if err = d.execute(ctx, "CREATE TABLE IF NOT EXISTS "+d.name(d.Positions)+" "+d.Dialect.Positions()); err ==
			nil {
			rows, err = d.conn.QueryContext(ctx, query, ledger.Connector)
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	ledger.Clear()
	for rows.Next() {
		var number int64
		var hashes []byte
		if err := rows.Scan(&number, &hashes); err != nil {
			return err
		}
		ledger.Add(number, hashes)
	}
	return rows.Err()
}

// note adds the hashes of a transaction, and deletes expired ones.
func (d *DB) note(ctx context.Context, ledger *Ledger, hashes []byte) error {
	number, last := ledger.Next(hashes)
	_, err := d.prepared(ctx, "INSERT INTO "+d.name(d.Positions)+" (connector, batch, hashes) VALUES (?, ?, ?)",
		ledger.Connector, number, hashes)
	if err == nil && last >= 0 {
		_, err = d.prepared(ctx, "DELETE FROM "+d.name(d.Positions)+" WHERE connector = ? AND batch <= ?",
			ledger.Connector, last)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("cannot save positions in %s: %w", d.Positions, err)
	if d.Dialect.Refused(err) {
		return Taken(err)
	}
	return Blameless(err)
}

// Forget removes the connector from the table of positions, if that table exists.
func (d *DB) Forget(ctx context.Context, connector string) error {
	if d.Positions == "" {
		return nil
	}
	if err := d.Connect(ctx, nil); err != nil {
		return err
	}
	defer d.Disconnect()
	err := d.execute(ctx, "DELETE FROM "+d.name(d.Positions)+" WHERE connector = ?", connector)
	if err != nil && !d.Dialect.Missing(err) {
		return fmt.Errorf("cannot remove positions from %s: %w", d.Positions, err)
	}
	return nil
}
