//go:build !no_syslog && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/syslog"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withSyslog() []sdk.Connector { return []sdk.Connector{syslog.Connector()} }
