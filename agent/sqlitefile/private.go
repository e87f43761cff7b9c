package sqlitefile

import (
	"io/fs"
	"log/slog"
	"os"
)

// PrivateMode is the mode of a file that only the user of the agent may open.
const PrivateMode fs.FileMode = 0o600

// TightenMode removes other users' access to the existing files, and logs a warning if they had any. what describes the
// files and their content, for the log.
func TightenMode(log *slog.Logger, what string, names ...string) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&^PrivateMode == 0 {
			continue
		}
		log := log.With("file", name, "mode", info.Mode().Perm().String())
		if err := os.Chmod(name, PrivateMode); err != nil {
			log.Warn("others may open "+what+", and that cannot be changed: chmod 600 it", "err", err)
			continue
		}
		log.Warn("others could open " + what +
			": its mode is 0600 now; change the secrets in it if they may have been read")
	}
}
