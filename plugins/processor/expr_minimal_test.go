//go:build minimal

package processor_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/expr"
)

func TestExprMinimal(t *testing.T) {
	for _, plugin := range expr.Plugins() {
		p := plugin.New()
		settings := map[string]string{"expression": "x", "mapping": "y"}
		if errs := p.Parameters().Check(settings); len(errs) > 0 {
			t.Errorf("settings of the full build are refused: %v", errs)
		}
		if err := p.Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "this build has no expressions") {
			t.Errorf("error is %v", err)
		}
	}
}
