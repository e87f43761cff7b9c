package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// doctor does not check the files of a directory in which the agent of the settings does not run.
func TestDoctorElsewhere(t *testing.T) {
	home := t.TempDir()
	settings := filepath.Join(home, "conduit.yaml")
	for path, content := range map[string]string{settings: "api.http.address: 127.0.0.1:0\n",
		filepath.Join(home, "conduit.db"): ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		more  []string
		level Level
	}{{nil, Warning}, {[]string{"--db.sqlite.path", "conduit.db"}, OK}} {
		_, stdout, _ := runHere(t, nil, append([]string{"doctor", "--json", "--config.path", settings}, c.more...)...)
		var findings []Finding
		if err := json.Unmarshal([]byte(stdout), &findings); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		at := func(check string) int {
			return slices.IndexFunc(findings, func(f Finding) bool { return f.Check == check })
		}
		if i := at("settings"); i < 0 || findings[i].Level != c.level ||
			strings.Contains(findings[i].Message, "run the command in "+home) != (c.level == Warning) {
			t.Errorf("with %q found %+v", c.more, findings)
		}
		if (at("store") >= 0) != (c.level == OK) || at("agent") < 0 {
			t.Errorf("with %q the checks are %+v", c.more, findings)
		}
	}
}
