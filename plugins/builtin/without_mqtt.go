//go:build no_mqtt || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withMQTT() []sdk.Connector { return nil }
