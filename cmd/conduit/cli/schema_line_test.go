package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The settings that packages install name the schema for editors, and packages install it there.
func TestInstalledSettingsNameTheirSchema(t *testing.T) {
	settings, err := os.ReadFile("../systemd/conduit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile("../package/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\A# yaml-language-server: \$schema=(/\S+)\n`).FindSubmatch(settings)
	if named == nil {
		t.Fatalf("no schema is named: %.80s", settings)
	}
	if want := "{src: schemas/conduit.json, dst: " + string(named[1]) + ","; !strings.Contains(string(contents), want) {
		t.Errorf("packages do not have %s", want)
	}
}
