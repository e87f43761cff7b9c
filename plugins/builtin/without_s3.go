//go:build no_s3 || minimal

package builtin

import "github.com/conduit-agent/conduit/plugins/sdk"

func withS3() []sdk.Connector { return nil }
