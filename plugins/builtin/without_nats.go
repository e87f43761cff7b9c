//go:build no_nats || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withNATS() []sdk.Connector { return nil }
