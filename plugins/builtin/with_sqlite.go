//go:build !no_sqlite && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withSQLite() []sdk.Connector { return []sdk.Connector{sqlite.Connector()} }
