package agenttest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Picky is a pipeline that copies lines into a file and refuses lines with the word bad. more is additional YAML of the
// pipeline.
func Picky(dir, condition, more string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/in.log}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[1]s/out.jsonl}}
    processors:
      - {id: check, plugin: error, condition: '%[2]s', settings: {message: it is bad}}
%[3]s`, dir, condition, more)
}

// Arguments of Picky: a condition, and keys of the pipeline.
const (
	IsBad    = `{{ contains "bad" (printf "%s" .Payload.After) }}` // refuses lines with the word bad
	Tolerant = "    dead-letter-queue: {window-size: 0}\n"         // any number of refused records is tolerated
)

// Payloads returns the payloads of the records in a file.
func Payloads(t testing.TB, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r record.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		raw, _ := r.After.Raw()
		all = append(all, string(raw))
	}
	return all
}
