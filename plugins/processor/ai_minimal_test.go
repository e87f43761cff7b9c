//go:build minimal

package processor_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/ai"
)

func TestAIMinimal(t *testing.T) {
	for _, plugin := range ai.Plugins() {
		if err := plugin.New().Configure(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "this build has no processors that ask language models") {
			t.Errorf("%s: %v", plugin.Name, err)
		}
	}
}
