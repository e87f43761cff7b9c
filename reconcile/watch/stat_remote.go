//go:build unix && !linux

package watch

// remote reports whether dir is on a file system that does not tell about changes made
// elsewhere. It cannot be told on this system: what no event told, the rescan finds.
func remote(string) bool { return false }

// mounts returns the places at which something is mounted, as far as that can be told.
func mounts() map[string]bool { return nil }
