package server

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/npm"
)

// query runs SQL statements, and prints the result of the last one as JSON.
//
//go:embed duckdb.mjs
var query string

// Rows are the result of a query. Values have the JSON form of DuckDB's client for Node.js, in which large integers and
// times are text.
type Rows struct {
	Types map[string]string // by column
	Rows  []map[string]any
}

// DuckDB runs SQL statements in an empty database of DuckDB, and returns the rows of the last one.
func DuckDB(t testing.TB, sql string) Rows {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Need(t, "node", "nodejs"), "--input-type=module", "--eval", query,
		filepath.Join(npm.Dir(t, "@duckdb/node-api"), "package.json"))
	cmd.Stdin = bytes.NewReader([]byte(sql))
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("DuckDB cannot run %.2000s: %v: %s", sql, err, &failure)
	}
	var rows Rows
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
