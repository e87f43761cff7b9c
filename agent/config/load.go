package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Sources are the sources of settings, each overlaying the one before it. Defaults are below all sources.
type Sources struct {
	Path  string            // of the file; if empty, DefaultPath, which may be missing
	Env   []string          // NAME=value, as os.Environ returns it; an empty value counts as none
	Flags map[string]string // key → text, for flags that were given
}

// Error is a problem with one setting.
type Error struct {
	Place   string // conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Place + ": " + e.Message }

// Warning reports a setting without effect.
type Warning Error

// String returns the place of the setting and the explanation.
func (w Warning) String() string { return w.Place + ": " + w.Message }

// Load returns the settings in effect. It reports all problems at once: the error joins one *Error for each, or says
// why the file cannot be read.
func Load(s Sources) (Config, []Warning, error) {
	content, err := readFile(s.Path)
	if err != nil {
		return Config{}, nil, err
	}
	l := &loader{values: koanf.New("."), origins: map[string]string{}}
	l.defaults()
	l.file(cmp.Or(s.Path, DefaultPath), content)
	l.env(s.Env)
	l.flags(s.Flags)

	var c Config
	if len(l.errs) == 0 {
		for _, s := range c.settings() {
			value := l.values.Get(s.Key)
			s.set(value)
			c.Effective = append(c.Effective, Effective{s.Key, text(value), cmp.Or(l.origins[s.Key], "default")})
		}
		c.File = cmp.Or(s.Path, DefaultPath)
		l.cluster(c.Cluster)
	}
	return c, l.warnings, errors.Join(l.errs...)
}

// reference matches references of pipeline files.
var reference = texts.Regexp(`\$\{[^}]*\}`)

// cluster reports a cluster that does not have exactly one store, and cluster settings with references, which would be
// used literally.
func (l *loader) cluster(c Cluster) {
	for _, key := range slices.Sorted(maps.Keys(l.origins)) {
		if text, ok := l.values.Get(key).(string); ok && strings.HasPrefix(key, "cluster.") &&
			reference().MatchString(text) {
			l.failAt(l.origins[key], "%s: references ${…} are for pipeline files: set the variable %s to the whole "+
				"value, or "+
				"name a file with the secret in cluster.nats.credentials-file or cluster.postgres.password-file",
				key, envName(key))
		}
	}
	const nats, postgres = "cluster.nats.url", "cluster.postgres.url"
	switch {
	case c.Name == "":
	case c.NATS.URL != "" && c.Postgres.URL != "":
		l.failAt(l.origins[postgres], "%s: %s is also set, at %s: a cluster has one store; remove one of them",
			postgres, nats, l.origins[nats])
	case c.NATS.URL == "" && c.Postgres.URL == "":
		l.failAt(l.origins["cluster.name"], "cluster.name: a cluster needs a store: set %s or %s", nats, postgres)
	}
}

// readFile reads the file of settings. Only DefaultPath may be missing, and only if there is no link at its path.
// readFile refuses a directory or a FIFO with the name of a file of settings; a file with another name, such as
// /dev/stdin, is read to its end.
func readFile(path string) ([]byte, error) {
	name := cmp.Or(path, DefaultPath)
	if err := readable(name); err != nil {
		return nil, fmt.Errorf("cannot read settings: %w", err)
	}
	content, err := os.ReadFile(name)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(name); err == nil {
			return nil,
				fmt.Errorf("cannot read settings: %s is a symbolic link to %s, which does not exist: create that "+
					"file, or remove the link to use the defaults", name, to)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read settings: %w", err)
	}
	return content, nil
}

// readable refuses a directory and a FIFO with the name of a file of settings. A missing file is found when it is
// read.
func readable(name string) error {
	const advice = "rename it, or name the file of settings with --config.path"
	info, err := os.Stat(name)
	switch ext := filepath.Ext(name); {
	case err != nil || ext != ".yaml" && ext != ".yml":
	case info.IsDir():
		return fmt.Errorf("%s is not a regular file but a directory: %s", name, advice)
	case info.Mode()&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is not a regular file but a FIFO: %s", name, advice)
	}
	return nil
}

// loader collects layers of settings, and all problems with them.
type loader struct {
	values   *koanf.Koanf
	origins  map[string]string // place by key, for settings that were set
	warnings []Warning
	errs     []error
	warned   map[string]bool // foreign keys
	nodes    int             // nodes of the file visited so far
}

func (l *loader) fail(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

func (l *loader) failAt(place, format string, args ...any) {
	l.fail(&Error{place, fmt.Sprintf(format, args...)})
}

func (l *loader) warn(place, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{place, fmt.Sprintf(format, args...)})
}

func (l *loader) overlay(values map[string]any) {
	l.fail(l.values.Load(confmap.Provider(values, "."), nil))
}

func (l *loader) defaults() {
	values := map[string]any{}
	for _, s := range declared() {
		values[s.Key] = s.Default
	}
	l.overlay(values)
}

func (l *loader) env(environ []string) {
	values := map[string]any{}
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "CONDUIT_") && text != "" && name != envName(PathKey) {
			l.variable(values, name, text)
		}
	}
	l.overlay(values)
}

func (l *loader) variable(values map[string]any, name, text string) {
	var names []string
	for _, s := range declared() {
		if s.Env() == name {
			l.text(values, s, name, text)
			return
		}
		names = append(names, s.Env())
	}
	if f, ok := foreignVariable(name); ok {
		l.warnForeign(name, "", f, text)
		return
	}
	l.warn(name, "no such setting%s", texts.Hint(name, names))
}

func (l *loader) flags(flags map[string]string) {
	values := map[string]any{}
	for _, s := range declared() {
		if text, ok := flags[s.Key]; ok {
			l.text(values, s, "--"+s.Key, text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		if _, known := Find(key); known {
			continue
		}
		if f, ok := foreignKey(key); ok {
			l.warnForeign("--"+key, "", f, flags[key])
			continue
		}
		l.failAt("--"+key, "no such setting")
	}
	l.overlay(values)
}

// text adds a value given as text.
func (l *loader) text(values map[string]any, s Setting, place, text string) {
	value, problem := s.read(s.parse(text))
	if problem != "" {
		l.failAt(place, "%s", problem)
		return
	}
	values[s.Key], l.origins[s.Key] = value, place
}

// warnForeign warns of a setting without effect, once for each key, unless it asks for the behavior of this agent.
func (l *loader) warnForeign(place, name string, f Foreign, value any) {
	if text := fmt.Sprint(value); value == nil || text == "" || text == f.same || l.warned[f.Key] {
		return
	}
	if l.warned == nil {
		l.warned = map[string]bool{}
	}
	l.warned[f.Key] = true
	l.warn(place, "%shas no effect: %s", name, f.Note)
}
