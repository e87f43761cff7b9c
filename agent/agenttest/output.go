package agenttest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"
)

// Output is a record in an output file.
type Output struct {
	Metadata map[string]string
	Payload  struct{ After map[string]any }
}

// OutputsIn returns the records in a file, without a torn last line.
func OutputsIn(t *testing.T, path string) (all []Output) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m Output
		if json.Unmarshal(line, &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

// LastOutput returns the last record in a file, the zero value if there is none. It reads only the end of the file, so
// that waiting for a record costs the same however long the file is.
func LastOutput(t *testing.T, path string) Output {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return Output{}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const end = 1 << 20
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, FileSize(path)-end), end))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Backward(bytes.SplitAfter(b, []byte("\n"))) {
		var last Output
		if json.Unmarshal(line, &last) == nil {
			return last
		}
	}
	return Output{}
}

// Number returns a numeric field of a record.
func Number(m Output, field string) int {
	n, _ := m.Payload.After[field].(float64)
	return int(n)
}
