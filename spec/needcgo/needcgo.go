//go:build cgo

// Package needcgo is imported by the packages that are built on SQLite, which is C, so that a
// build without cgo ends with one sentence instead of what is missing then.
package needcgo
