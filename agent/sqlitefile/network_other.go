//go:build !linux

package sqlitefile

// FileSystem does not know file systems here.
func FileSystem(string) (name string, network bool) { return "", false }

// RefuseNetwork does not know network file systems here.
func RefuseNetwork(string) error { return nil }
