//go:build !linux

package sqlitefile

// FileSystem returns nothing: file systems are not identified on this platform.
func FileSystem(string) (name string, network bool) { return "", false }

// CheckNetwork returns nil: network file systems are not identified on this platform.
func CheckNetwork(string) error { return nil }
