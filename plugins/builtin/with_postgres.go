//go:build !no_postgres && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withPostgres() []sdk.Connector { return []sdk.Connector{postgres.Connector()} }
