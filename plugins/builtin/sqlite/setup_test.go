package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSetupIsBounded checks that the SQL of the setting setup is limited in memory and time, and cannot limit the
// memory of others.
func TestSetupIsBounded(t *testing.T) {
	t.Parallel()
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
	for text, want := range map[string]string{
		"SELECT randomblob(600000000), randomblob(600000000)":                                "too big",
		"SELECT zeroblob(600000000)":                                                         "too big",
		"SELECT group_concat(hex(zeroblob(100000))) FROM pragma_table_list, generate_series": "no such table",
		"CREATE TABLE big AS SELECT " + strings.Repeat("randomblob(1000000),", 1000) + "1":   "too many columns",
		"WITH RECURSIVE n(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM n) " +
			"SELECT max(s) FROM n": "too big",
		"PRAGMA temp_store_directory = '/tmp'": "not authorized",
		"PRAGMA hard_heap_limit = 1000":        "not authorized",
		"PRAGMA soft_heap_limit = 1000":        "not authorized",
		endless:                                "it took longer than 10ms (setup.timeout)",
		"CREATE TABLE t (n INT); CREATE INDEX i ON t (n); PRAGMA user_version = 3; ANALYZE": "",
	} {
		d := sdk.Standard(sqlite.Connector()).NewDestination()
		settings := map[string]string{"path": filepath.Join(t.TempDir(), "x.db"), "table": "t", "setup": text}
		if text == endless {
			settings["setup.timeout"] = "10ms"
		}
		if err := d.Configure(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		err := d.Open(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
		_ = d.Teardown(t.Context())
	}
}
