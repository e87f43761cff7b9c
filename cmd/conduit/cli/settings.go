package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
)

// Settings are the agent's settings as flags of a command.
type Settings struct {
	path  string            // of conduit.yaml, when it was given
	Own   bool              // of a separate agent, which does not use the settings of an installed service
	Given map[string]string // key → text
}

// SettingFlags defines a flag for each of these settings, for every setting if none is named.
func SettingFlags(fs *flag.FlagSet, keys ...string) *Settings {
	s := &Settings{Given: map[string]string{}}
	fs.StringVar(&s.path, config.PathKey, "", "`FILE` with settings (default "+config.DefaultPath+")")
	for _, key := range keys {
		if setting, ok := config.Find(key); ok {
			s.define(fs, setting)
		}
	}
	if len(keys) == 0 {
		for _, setting := range config.Settings() {
			s.define(fs, setting)
		}
		s.foreignFlags(fs)
	}
	return s
}

// define defines the flag of a setting.
func (s *Settings) define(fs *flag.FlagSet, setting config.Setting) {
	fs.Var(&settingFlag{setting, s.Given}, setting.Key, setting.Meaning())
	fs.Lookup(setting.Key).DefValue = setting.DefaultText()
}

// foreignFlags defines the flags of Conduit that have no effect here, and its short names of other flags. Help does not
// show them.
func (s *Settings) foreignFlags(fs *flag.FlagSet) {
	for _, f := range config.ForeignSettings() {
		fs.Var(&foreignFlag{f.Key, f.Bool, s.Given}, f.Key, hidden)
	}
	for alias, key := range config.Aliases {
		fs.Var(&foreignFlag{key, key != "pipelines.path", s.Given}, alias, hidden)
	}
}

// hidden is the text of flags that help does not show.
const hidden = "hidden"

// foreignFlag keeps the text of a flag under its key.
type foreignFlag struct {
	key   string
	bare  bool // the value is optional
	given map[string]string
}

// String implements flag.Value.
func (f *foreignFlag) String() string { return "" }

// IsBoolFlag makes the value optional.
func (f *foreignFlag) IsBoolFlag() bool { return f.bare }

// Set implements flag.Value.
func (f *foreignFlag) Set(text string) error {
	f.given[f.key] = text
	return nil
}

// Load returns the settings in effect and warns about settings without an effect. In a directory without an agent, it
// returns the settings of the installed service, unless s is for a separate agent.
func (s *Settings) Load(p *Program) (config.Config, error) {
	path := cmp.Or(s.path, p.Getenv("CONDUIT_CONFIG_PATH"))
	if path == "" && !s.Own && nothingHere() && !NothingAt(p.ServiceFile) {
		path = p.ServiceFile
	}
	environ := slices.DeleteFunc(slices.Clone(p.Environ), func(v string) bool {
		return strings.HasPrefix(v, TokenVariable+"=")
	})
	c, warnings, err := config.Load(config.Sources{Path: path, Env: environ, Flags: s.Given})
	for _, w := range warnings {
		fmt.Fprintf(p.Stderr, "conduit: warning: %s\n", w)
	}
	if err != nil && ExitCode(err) != ExitEnvironment {
		return c, Invalidf("%v", err)
	}
	if path == p.ServiceFile && !s.Own && filepath.IsAbs(c.DB.SQLite.Path) {
		c.Dir = filepath.Dir(c.DB.SQLite.Path) // as in the unit
	}
	return c, err
}

// nothingHere reports whether no agent is set up in this directory.
func nothingHere() bool {
	return NothingAt(config.DefaultPath, config.Default("pipelines.path").(string),
		config.Default("db.sqlite.path").(string))
}

// NothingAt reports whether there is nothing at any of the paths.
func NothingAt(paths ...string) bool {
	for _, path := range paths {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// FileAt returns the path of a pipeline file, or of a directory with pipeline files: path if it exists, or else the
// file with this name within pipelines.path, as in every output.
func FileAt(c config.Config, path string) string {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path
	}
	if within := filepath.Join(c.Pipelines.Path, path); filepath.IsLocal(path) {
		if _, err := os.Stat(within); err == nil {
			return within
		}
	}
	return path
}

// settingFlag keeps the text of a flag; package config reads it.
type settingFlag struct {
	config.Setting
	given map[string]string
}

// String implements flag.Value.
func (f *settingFlag) String() string { return "" }

// IsBoolFlag makes the value of a bool optional.
func (f *settingFlag) IsBoolFlag() bool { return f.Type() == "bool" }

// Set implements flag.Value.
func (f *settingFlag) Set(text string) error {
	if f.IsBoolFlag() {
		if _, err := strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	}
	f.given[f.Key] = text
	return nil
}
