package cli

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// In a directory without an agent, commands use the agent that is installed as a service.
func TestSettingsOfTheService(t *testing.T) {
	dir := t.TempDir()
	service := filepath.Join(dir, "service.yaml")
	if err := os.WriteFile(service, []byte("db: {sqlite: {path: /var/lib/conduit/conduit.db}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file, here string
		own              bool
		args             []string
		want, dir        string
	}{
		{name: "nothing here", file: service, want: "/var/lib/conduit/conduit.db", dir: "/var/lib/conduit"},
		{name: "named", file: service, here: "conduit.yaml", args: []string{"--config.path", service},
			want: "/var/lib/conduit/conduit.db", dir: "/var/lib/conduit"},
		{name: "of the service itself", file: service, own: true, args: []string{"--config.path", service},
			want: "/var/lib/conduit/conduit.db"},
		{name: "given", file: service, args: []string{"--db.sqlite.path", "mine.db"}, want: "mine.db"},
		{name: "settings here", file: service, here: "conduit.yaml", want: "conduit.db"},
		{name: "pipelines here", file: service, here: "pipelines", want: "conduit.db"},
		{name: "state here", file: service, here: "conduit.db", want: "conduit.db"},
		{name: "an agent of its own", file: service, own: true, want: "conduit.db"},
		{name: "no service", file: filepath.Join(dir, "missing.yaml"), want: "conduit.db"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if test.here != "" {
				if err := os.WriteFile(test.here, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			flags := flag.NewFlagSet("", flag.ContinueOnError)
			s := SettingFlags(flags, "db.sqlite.path")
			s.Own = test.own
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			c, err := s.Load(&Program{Stderr: t.Output(), ServiceFile: test.file})
			if err != nil || c.DB.SQLite.Path != test.want || c.Dir != test.dir {
				t.Errorf("the state is %q, paths start at %q, %v; want %q, %q", c.DB.SQLite.Path, c.Dir, err, test.want,
					test.dir)
			}
		})
	}
}
