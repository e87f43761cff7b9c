//go:build no_journald || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withJournald() []sdk.Connector { return nil }
