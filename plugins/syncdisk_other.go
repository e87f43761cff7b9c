//go:build !linux

package plugins

import "github.com/conduit-agent/conduit/plugins/sdk"

// syncWhole returns false: only Linux can sync a single file system and report errors.
func syncWhole([]sdk.UnsyncedFile, []error, int64) bool { return false }
