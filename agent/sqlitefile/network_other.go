//go:build !linux

package sqlitefile

// FileSystem returns nothing: file systems are not identified on this platform.
func FileSystem(string) (name string, network bool) { return "", false }

// RefuseNetwork returns nil: network file systems are not identified on this platform.
func RefuseNetwork(string) error { return nil }
