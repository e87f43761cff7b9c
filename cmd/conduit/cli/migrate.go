package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/migrate"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// migration has the source and the target of a migration.
type migration struct {
	*Program
	settings *Settings
	from     string // a SQLite file, or the URL of a running Conduit
	files    string // directory of the Conduit's pipeline files
	toFiles  string // directory to write pipeline files into; empty: the API owns the pipelines
	write    bool
	json     bool
}

// migrateCommand returns 'conduit migrate'.
func migrateCommand(p *Program) *ffcli.Command {
	flags := NewFlags("migrate")
	m := &migration{Program: p, settings: SettingFlags(flags, "db.sqlite.path", "connectors.path", "processors.path")}
	flags.StringVar(&m.from, "from", "", "`SOURCE`: the SQLite file of a Conduit, or the URL of a running one")
	flags.StringVar(&m.files, "files", "",
		"`DIR` of the pipeline files of that Conduit, for settings that the API redacts")
	flags.StringVar(&m.toFiles, "to-files", "",
		"write the pipelines as files into `DIR` instead of declaring them over the API")
	flags.BoolVar(&m.write, "write", false, "write the changes; without it they are only shown")
	flags.BoolVar(&m.json, "json", false, "print JSON")
	return &ffcli.Command{
		Name:       "migrate",
		ShortUsage: "conduit migrate --from SOURCE [flags]",
		ShortHelp:  "Import pipelines and positions from a Conduit.",
		LongHelp: `Imports pipelines, connectors, processors and dead-letter queues with all settings, and the
positions of sources. The Conduit is not changed, and no pipeline is started: pipelines are
imported as stopped. Stop the Conduit and this agent first. If SOURCE is a URL, stop the
pipelines there and this agent.

A SQLite file contains everything. The API of a running Conduit redacts all settings; they are read
from its pipeline files (--files). A setting that is found nowhere becomes a reference to a variable,
and the command lists it. For a Conduit that keeps its state in badger or Postgres, use its API.

Without --write the command shows the changes, and the features that have no equivalent here.

Examples:
  conduit migrate --from /var/lib/conduit/conduit.db --db.sqlite.path agent.db
  conduit migrate --from http://localhost:8080 --files /etc/conduit/pipelines --to-files pipelines --write`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			return m.run(ctx)
		},
	}
}

func (m *migration) run(ctx context.Context) error {
	c, err := m.settings.Load(m.Program)
	if err != nil {
		return err
	}
	found, err := m.find(ctx, c)
	if err != nil {
		return err
	}
	result := m.describe(ctx, c, found)
	if m.write {
		if err := m.writeAll(ctx, c, found); err != nil {
			return err
		}
	}
	if m.json {
		return m.WriteJSON(result)
	}
	m.print(result)
	return nil
}

func (m *migration) find(ctx context.Context, c config.Config) (*migrate.Found, error) {
	if strings.HasPrefix(m.from, "http://") || strings.HasPrefix(m.from, "https://") {
		files, err := m.pipelineFiles()
		if err != nil {
			return nil, err
		}
		return migrate.FromAPI(ctx, &client.Client{URL: strings.TrimSuffix(m.from, "/")}, files)
	}
	if m.from == "" {
		return nil, Invalidf("--from is needed: the SQLite file of a Conduit, or the URL of a running one")
	}
	path, err := databaseFile(m.from)
	if err != nil {
		return nil, err
	}
	if same(path, c.DB.SQLite.Path) {
		return nil, Invalidf("%s is both the state of the Conduit and the store of this agent: give --db.sqlite.path "+
			"another name", m.from)
	}
	return migrate.FromDatabase(ctx, path)
}

// databaseFile returns the SQLite file at path, or inside the directory path.
func databaseFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", Invalidf("cannot find the state of a Conduit: %v", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	inner := filepath.Join(path, "conduit.db")
	if _, err := os.Stat(inner); err == nil {
		return inner, nil
	}
	return "", Invalidf("%s is a directory without a SQLite file, so the state is in badger, which only that Conduit "+
		"can read: "+
		"start it and import from its API: conduit migrate --from http://localhost:8080 --files DIR", path)
}

func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// pipelineFiles returns the pipelines of the files in m.files that can be read.
func (m *migration) pipelineFiles() ([]spec.Pipeline, error) {
	if m.files == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(m.files)
	if err != nil {
		return nil, fmt.Errorf("cannot read the pipeline files: %w", err)
	}
	var all []spec.Pipeline
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		path := filepath.Join(m.files, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the pipeline files: %w", err)
		}
		f := m.ParseAnyVersion(path, text)
		m.ProblemsTo(m.Stderr, f.Problems)
		for _, parsed := range f.Pipelines {
			all = append(all, parsed.Pipeline)
		}
	}
	return all, nil
}

// writeAll writes the files, if any, and then the store. If that fails, it removes the files: without its position a
// pipeline would read everything again.
func (m *migration) writeAll(ctx context.Context, c config.Config, found *migrate.Found) (err error) {
	var written []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range written {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if m.toFiles != "" {
		for _, p := range found.Pipelines {
			path := filepath.Join(m.toFiles, migrate.FileName(p.ID))
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("cannot write pipeline %q: %w", p.ID, err)
			}
			written = append(written, path)
			_, err = f.Write(spec.Marshal(p))
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("cannot write pipeline %q: %w", p.ID, err)
			}
		}
	}
	return found.Write(ctx, c.DB.SQLite.Path, migrate.Owner{Files: m.toFiles != ""})
}

// migrationResult is the content that is, or would be, migrated.
type migrationResult struct {
	Written   bool               `json:"written"`
	Pipelines []migratedPipeline `json:"pipelines"`
	Positions []migratedPosition `json:"positions"`
	Unset     []migrate.Unset    `json:"unset"` // variables without a value
	Unequal   []string           `json:"unequal"`
}

type migratedPipeline struct {
	ID         string `json:"id"`
	Connectors int    `json:"connectors"`
	Processors int    `json:"processors"`
	WasRunning bool   `json:"wasRunning"`
}

type migratedPosition struct {
	Connector string `json:"connector"`
	Position  []byte `json:"position"`
}

func (m *migration) describe(ctx context.Context, c config.Config, found *migrate.Found) *migrationResult {
	result := &migrationResult{Written: m.write, Pipelines: []migratedPipeline{}, Positions: []migratedPosition{},
		Unset: append([]migrate.Unset{}, found.Unset...), Unequal: append([]string{}, found.Notes...)}
	plugins := m.Catalog(c, slog.New(slog.DiscardHandler))
	for i := range found.Pipelines {
		p := &found.Pipelines[i]
		processors := len(p.Processors)
		for _, connector := range p.Connectors {
			processors += len(connector.Processors)
		}
		result.Pipelines = append(result.Pipelines,
			migratedPipeline{p.ID, len(p.Connectors), processors, found.Running[p.ID]})
		for _, problem := range append(m.Parser().Validate(p), plugins.Check(ctx, p)...) {
			result.Unequal = append(result.Unequal, fmt.Sprintf("pipeline %q: %s", p.ID, problem.Message))
		}
	}
	for _, c := range found.Checkpoints {
		result.Positions = append(result.Positions, migratedPosition{c.ConnectorID, c.Position})
	}
	return result
}

func (m *migration) print(r *migrationResult) {
	for _, p := range r.Pipelines {
		was := ""
		if p.WasRunning {
			was = ", was running"
		}
		fmt.Fprintf(m.Stdout, "pipeline %s: %s, %s%s\n", p.ID, terminal.Count(p.Connectors, "connector"),
			terminal.Count(p.Processors, "processor"), was)
	}
	for _, p := range r.Positions {
		fmt.Fprintf(m.Stdout, "position of %s: %s\n", p.Connector, terminal.Clean(fmt.Sprintf("%.120q", p.Position)))
	}
	for _, u := range r.Unset {
		fmt.Fprintf(m.Stdout, "set %s: setting %q of %s is not known\n", u.Variable, u.Setting, u.Connector)
	}
	for _, text := range r.Unequal {
		fmt.Fprintf(m.Stdout, "not equal: %s\n", terminal.Clean(text))
	}
	if r.Written {
		fmt.Fprintf(m.Stdout, "%s imported, stopped\n", terminal.Count(len(r.Pipelines), "pipeline"))
		return
	}
	fmt.Fprintln(m.Stdout, "Nothing is written. Repeat the command with --write.")
}
