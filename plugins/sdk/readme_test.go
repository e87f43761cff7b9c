package sdk_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The code on the page for authors compiles, and the page names every setting.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of code, want 3", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(example), b[1]) {
			t.Errorf("example_test.go does not have\n%s", b[1])
		}
	}
	for _, params := range []sdk.Parameters{sdk.Standard(Countdown).NewSource().Parameters(),
		sdk.Standard(Printer).NewDestination().Parameters()} {
		for name := range params {
			if strings.HasPrefix(name, "sdk.") && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("%s is not on the page", name)
			}
		}
	}
}
