//go:build minimal

package javascript_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

func TestMinimal(t *testing.T) {
	p := javascript.Plugin().New()
	settings := map[string]string{"script": "x", "script.path": "y", "timeout": "1s"}
	if errs := p.Parameters().Check(settings); len(errs) > 0 {
		t.Errorf("settings of the full build are refused: %v", errs)
	}
	if err := p.Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "this build has no JavaScript") {
		t.Errorf("error is %v", err)
	}
}
