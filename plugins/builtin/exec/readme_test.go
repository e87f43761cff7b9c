package exec

import (
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The page has a row for every setting, with its default.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, params := range []sdk.Parameters{(&source{}).Parameters(), (&destination{}).Parameters()} {
		for name, p := range params {
			def := ""
			if p.Default != "" {
				def = "`" + p.Default + "` "
			}
			if p.Description == "" || !strings.Contains(string(page), "| `"+name+"` |") ||
				!strings.Contains(string(page), "| "+def+"|") {
				t.Errorf("setting %s with the default %q is not on the page, or not described", name, p.Default)
			}
		}
	}
}
