package cli

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
)

// misplaced returns an error if c is for an agent in another directory: a relative path of the file of settings, or a
// default, leads to nothing here, but to a store or to pipelines next to that file, and there is no store here. An
// agent in this directory would begin with an empty store and read all sources again.
func misplaced(c config.Config) error {
	if !NothingAt(c.DB.SQLite.Path) {
		return nil
	}
	var names, found, flags []string
	for s, there := range nextToSettings(c) {
		if NothingAt(s.Value) {
			names, found = append(names, s.Key+" is "+s.Value), append(found, there)
			flags = append(flags, "--"+s.Key+" "+s.Value)
		}
	}
	if names == nil {
		return nil
	}
	here, err := os.Getwd()
	return errors.Join(err, Invalidf("%s, relative to the working directory %s, where there is nothing, but next to the "+
		"settings there is %s: run the command in %s, or write absolute paths into %s; %s starts an agent with an empty "+
		"store here", strings.Join(names, ", and "), here, strings.Join(found, " and "), filepath.Dir(c.File), c.File,
		strings.Join(flags, " ")))
}

// ambiguous returns an error if a command for the store cannot know which store is that of the agent: the relative path
// of the settings of another directory leads to one next to them, and maybe to another one here.
func ambiguous(c config.Config) error {
	for s, there := range nextToSettings(c) {
		if s.Key == "db.sqlite.path" {
			return Invalidf("the store of these settings may be %s, relative to the working directory, or %s, next to %s: "+
				"name it with --%s, or run the command in the directory of the agent", absolute(c.DB.SQLite.Path),
				absolute(there), c.File, s.Key)
		}
	}
	return nil
}

// nextToSettings yields the settings of the store and of the pipelines with a relative path that neither a flag nor a
// variable gives, and that leads to something from the directory of the file of settings, with that path. There are
// none if the working directory is that directory.
func nextToSettings(c config.Config) iter.Seq2[config.Effective, string] {
	return func(yield func(s config.Effective, there string) bool) {
		dir := filepath.Dir(c.File)
		if absolute(dir) == absolute(".") {
			return
		}
		for _, s := range c.Effective {
			given := strings.HasPrefix(s.Origin, "--") || strings.HasPrefix(s.Origin, "CONDUIT_")
			if s.Key != "db.sqlite.path" && s.Key != "pipelines.path" || given || filepath.IsAbs(s.Value) {
				continue
			}
			if there := filepath.Join(dir, s.Value); !NothingAt(there) && !yield(s, there) {
				return
			}
		}
	}
}

// absolute returns an absolute form of path for people.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
