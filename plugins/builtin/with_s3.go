//go:build !no_s3 && !minimal

package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func withS3() []sdk.Connector { return []sdk.Connector{s3.Connector()} }
