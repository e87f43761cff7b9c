package builtin_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func TestAll(t *testing.T) {
	version := regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
	var names []string
	for _, c := range builtin.All() {
		names = append(names, c.Name)
		if c.Summary == "" || c.Description == "" || c.Author != "conduit" || !version.MatchString(c.Version) {
			t.Errorf("%s is described incompletely: %+v", c.Name, c)
		}
	}
	if want := []string{"file", "generator", "log"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// TestREADME makes sure that the README has a row for every setting, with its default.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	check := func(connector string, all sdk.Parameters) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text := all[name].Default
			if text != "" {
				text = "`" + text + "`"
			}
			if row := "| `" + name + "` |"; !hasRow(string(readme), row, text) {
				t.Errorf("README.md has no row %s with the default %q, a setting of %s", row, text, connector)
			}
			if all[name].Description == "" {
				t.Errorf("%s: setting %s has no description", connector, name)
			}
		}
	}
	for _, c := range builtin.All() {
		if c.NewSource != nil {
			check(c.Name, c.NewSource().Parameters())
		}
		if c.NewDestination != nil {
			check(c.Name, c.NewDestination().Parameters())
		}
	}
}

func hasRow(text, row, def string) bool {
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, row) && len(cells) > 3 && strings.TrimSpace(cells[3]) == def {
			return true
		}
	}
	return false
}
