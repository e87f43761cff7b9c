package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
)

// misplaced returns an error if c is for an agent in another directory: a relative path of the file of settings, or a
// default, leads to nothing here, but to a store or to pipelines next to that file, and there is no store here. An
// agent in this directory would begin with an empty store and read all sources again.
func misplaced(c config.Config) error {
	dir := filepath.Dir(c.File)
	if dir == "." || !NothingAt(c.DB.SQLite.Path) {
		return nil
	}
	for _, s := range c.Effective {
		given := strings.HasPrefix(s.Origin, "--") || strings.HasPrefix(s.Origin, "CONDUIT_")
		if s.Key != "db.sqlite.path" && s.Key != "pipelines.path" || given || filepath.IsAbs(s.Value) {
			continue
		}
		if there := filepath.Join(dir, s.Value); !NothingAt(there) && NothingAt(s.Value) {
			here, err := os.Getwd()
			return errors.Join(err, Invalidf("%s is %s, relative to the working directory %s, where it does not exist, "+
				"but it exists next to the settings, as %s: run the command in %s, or write absolute paths into %s; "+
				"--%[1]s %[2]s starts an agent with an empty store here", s.Key, s.Value, here, there, dir, c.File))
		}
	}
	return nil
}

// absolute returns an absolute form of path for people.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
