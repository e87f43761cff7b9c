package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
)

// settings are the agent's settings as flags of a command.
type settings struct {
	path  string            // of conduit.yaml, when it was given
	given map[string]string // key → text
}

// settingFlags defines a flag for each of these settings, for every one if none is named.
func settingFlags(fs *flag.FlagSet, keys ...string) *settings {
	s := &settings{given: map[string]string{}}
	fs.StringVar(&s.path, config.PathKey, "", "`FILE` with settings (default "+config.DefaultPath+")")
	for _, setting := range config.Settings() {
		if len(keys) > 0 && !slices.Contains(keys, setting.Key) {
			continue
		}
		fs.Var(&settingFlag{setting, s.given}, setting.Key, flagText(setting))
		fs.Lookup(setting.Key).DefValue = setting.DefaultText()
	}
	if len(keys) == 0 {
		s.foreignFlags(fs)
	}
	return s
}

// foreignFlags defines the flags that Conduit has and that do nothing here, and its short
// names of others. Help does not show them.
func (s *settings) foreignFlags(fs *flag.FlagSet) {
	for _, f := range config.ForeignSettings() {
		fs.Var(&foreignFlag{f.Key, f.Bool, s.given}, f.Key, hidden)
	}
	for alias, key := range config.Aliases {
		fs.Var(&foreignFlag{key, key != "pipelines.path", s.given}, alias, hidden)
	}
}

// hidden is the text of flags that help does not show.
const hidden = "hidden"

// foreignFlag keeps the text of a flag under its key.
type foreignFlag struct {
	key   string
	bare  bool // it may stand without a value
	given map[string]string
}

// String implements flag.Value.
func (f *foreignFlag) String() string { return "" }

// IsBoolFlag lets it stand without a value.
func (f *foreignFlag) IsBoolFlag() bool { return f.bare }

// Set implements flag.Value.
func (f *foreignFlag) Set(text string) error {
	f.given[f.key] = text
	return nil
}

func flagText(s config.Setting) string {
	text := s.Description
	if len(s.Values) > 0 {
		text += " One of: " + strings.Join(s.Values, ", ") + "."
	}
	return text
}

// load returns the settings in effect and warns about those that have none.
func (s *settings) load(p *program) (config.Config, error) {
	path := s.path
	if path == "" {
		path = p.getenv("CONDUIT_CONFIG_PATH")
	}
	environ := slices.DeleteFunc(slices.Clone(p.environ), func(v string) bool { return strings.HasPrefix(v, tokenVariable+"=") })
	c, warnings, err := config.Load(config.Sources{Path: path, Env: environ, Flags: s.given})
	for _, w := range warnings {
		fmt.Fprintf(p.stderr, "conduit: warning: %s\n", w)
	}
	if err != nil && exitCode(err) != exitEnvironment {
		return c, invalidf("%v", err)
	}
	return c, err
}

// settingFlag keeps the text of a flag; package config reads it.
type settingFlag struct {
	config.Setting
	given map[string]string
}

// String implements flag.Value.
func (f *settingFlag) String() string { return "" }

// IsBoolFlag lets a bool stand without a value.
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
