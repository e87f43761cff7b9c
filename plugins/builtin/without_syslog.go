//go:build no_syslog || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withSyslog() []sdk.Connector { return nil }
