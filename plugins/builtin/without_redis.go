//go:build no_redis || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withRedis() []sdk.Connector { return nil }
