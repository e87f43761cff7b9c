//go:build no_mysql || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withMySQL() []sdk.Connector { return nil }
