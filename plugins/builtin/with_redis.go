//go:build !no_redis && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/redis"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withRedis() []sdk.Connector { return []sdk.Connector{redis.Connector()} }
