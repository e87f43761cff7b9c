//go:build !no_mysql && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withMySQL() []sdk.Connector { return []sdk.Connector{mysql.Connector()} }
