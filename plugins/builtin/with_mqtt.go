//go:build !no_mqtt && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withMQTT() []sdk.Connector { return []sdk.Connector{mqtt.Connector()} }
