package mysql

import (
	"context"
	"database/sql"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/gtid"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// WithoutGTIDs is the connector with a source that takes a MariaDB for a MySQL without GTIDs: then that one sends what it sends to replicas that
// know none.
func WithoutGTIDs() sdk.Connector {
	c := Connector()
	c.NewSource = func() sdk.Source {
		return &Source{identify: func(ctx context.Context, db *sql.DB) (serverInfo, error) {
			info, err := identify(ctx, db)
			info.maria = false
			return info, err
		}}
	}
	return c
}

// Compare compares a position with the transactions that a MySQL has, and those that it purged.
func Compare(set, in, executed, purged string) error {
	parse := func(text string) gtid.Set {
		s, err := gtid.Parse(text)
		if err != nil {
			panic(err)
		}
		return s
	}
	s := &Source{at: place{set: parse(set), in: in, file: "bin.000001"}}
	return s.compare(parse(executed), parse(purged))
}

// Check returns what must be changed on a server with these variables.
func Check(variables map[string]string) error { return (&serverInfo{variables: variables}).check() }
