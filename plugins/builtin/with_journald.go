//go:build !no_journald && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/journald"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withJournald() []sdk.Connector { return []sdk.Connector{journald.Connector()} }
