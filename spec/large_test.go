package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// The work grows linearly with the size of a file. Quadratic growth would take minutes.
func TestManyPipelines(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: \"2.2\"\npipelines:\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "- id: p%d\n  connectors: [{id: s, type: source, plugin: g}, {id: d, type: destination, "+
			"plugin: l}]\n", i)
	}
	var f spec.File
	took := wait.CPUTime(func() { f = spec.ParseFile("f.yaml", []byte(b.String())) })
	if len(f.Pipelines) != 4000 || took > 20*time.Second {
		t.Errorf("read %d pipelines in %v", len(f.Pipelines), took)
	}
}
