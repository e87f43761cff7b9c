//go:build unix && !linux

package watch

// remote reports whether dir is on a file system that has no events of changes made elsewhere. That is unknown on this
// system: the rescan finds changes without events.
func remote(string) bool { return false }

// mounts returns the places at which something is mounted, as far as that is known.
func mounts() map[string]bool { return nil }
