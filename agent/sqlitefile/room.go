package sqlitefile

import (
	"cmp"
	"errors"
	"os"
)

// room is the number of bytes that a transaction may add to the file and to its log at once.
const room = 64 << 10

// Room returns ErrFull if the file system of the SQLite file at path has no space for a transaction of several pages.
// It writes a file and removes it, because a quota may leave less space than the file system reports as free.
func Room(path string) error {
	probe := path + ".probe"
	f, err := os.OpenFile(probe, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(make([]byte, room))
		err = cmp.Or(err, f.Sync(), f.Close(), os.Remove(probe))
	}
	if err = Explain(path, err); errors.Is(err, ErrFull) {
		return err
	}
	return nil // a write to the file itself detects any other fault
}
