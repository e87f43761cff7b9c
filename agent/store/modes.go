package store

import (
	"io/fs"
	"log/slog"
	"os"
)

// private is the mode of the files of a store: it holds what settings say, secrets included.
const private fs.FileMode = 0o600

// tighten takes from others the right to read or write the files of the store at path, and warns
// if they had it.
func tighten(path string, log *slog.Logger) {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".lock"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&^private == 0 {
			continue
		}
		log := log.With("component", "store", "file", name, "mode", info.Mode().Perm().String())
		if err := os.Chmod(name, private); err != nil {
			log.Warn("others may open the store, which holds secrets of settings, and that cannot be changed: chmod 600 it", "err", err)
			continue
		}
		log.Warn("others could open the store, which holds secrets of settings: its mode is 0600 now; change the secrets if they may have been read")
	}
}
