//go:build !no_http && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withHTTP() []sdk.Connector { return []sdk.Connector{http.Connector()} }
