package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReferencesInRecordsAreData has records with every kind of reference as text, in a payload and in a file that a
// setting refers to: they pass unchanged.
func TestReferencesInRecordsAreData(t *testing.T) {
	t.Setenv("CONDUIT_E2E_CANARY", "canary")
	d := deskIn(t, "")
	d.Must(os.WriteFile(d.Path("secret"), []byte("canary\n"), 0o600))
	lines := []string{"${CONDUIT_E2E_CANARY}", "$CONDUIT_E2E_CANARY", "${file:" + d.Path("secret") + "}",
		"${credential:x}", "${CONDUIT_E2E_UNSET:-canary}", "$$"}
	d.Must(os.WriteFile(d.Path("in"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	d.Must(os.WriteFile(d.Path("template"), []byte("{{ printf \"%s\" .Payload.After }} ${CONDUIT_E2E_CANARY}\n"),
		0o600))
	d.Save("p.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - {id: out, type: destination, plugin: "builtin:file", settings: {path: %q, sdk.record.format: template,
         sdk.record.format.options: %q}}
`, d.Path("in"), d.Path("out"), "${file:"+d.Path("template")+"}"))
	var got string
	d.Wait("all records to arrive", func() bool {
		b, _ := os.ReadFile(d.Path("out"))
		got = string(b)
		return strings.Count(got, "\n") == len(lines)
	})
	for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		if want := lines[i] + " ${CONDUIT_E2E_CANARY}"; line != want {
			t.Errorf("line %d is %q, want %q", i, line, want)
		}
	}
}
