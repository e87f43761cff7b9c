//go:build no_sqlite || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withSQLite() []sdk.Connector { return nil }
