//go:build no_kafka || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withKafka() []sdk.Connector { return nil }
