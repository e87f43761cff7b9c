//go:build cgo

// Package needcgo is imported by the packages that use SQLite, which is C, so that a build without cgo fails with a
// clear sentence instead of errors about missing symbols.
package needcgo
