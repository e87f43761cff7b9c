//go:build !linux

package standalone

// mayBeWritten reports whether somebody may have the file open for writing, which is unknown on this system.
func mayBeWritten(string) bool { return true }
