//go:build !no_nats && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/nats"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withNATS() []sdk.Connector { return []sdk.Connector{nats.Connector()} }
