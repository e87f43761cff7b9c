package web

import (
	"io/fs"
	"sync"
	"testing"
)

// Replace makes other files the files of the page until the test ends.
func Replace(t testing.TB, from fs.ReadDirFS) {
	before := all
	all = sync.OnceValue(func() map[string]*file { return read(from) })
	t.Cleanup(func() { all = before })
}
