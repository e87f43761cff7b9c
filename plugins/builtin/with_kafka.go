//go:build !no_kafka && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withKafka() []sdk.Connector { return []sdk.Connector{kafka.Connector()} }
