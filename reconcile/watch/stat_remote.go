//go:build unix && !linux

package watch

// remote reports whether dir is on a file system that has no events of changes made elsewhere. That is unknown on this
// system: the rescan finds changes without events.
func remote(string) bool { return false }

// mounts returns the mount points below a directory. They are unknown on this system.
func mounts(string) map[string]bool { return nil }
