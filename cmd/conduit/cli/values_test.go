package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/spec"
)

// The page also has the values that no answer of the API has.
func TestValuesOfCommandsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../../api/README.md")
	if err != nil {
		t.Fatal(err)
	}
	levels, _ := config.Find("log.level")
	for what, values := range map[string][]string{
		"level of the log":                 levels.Values,
		"what became of a file's pipeline": allTexts(spec.OutcomePending, spec.OutcomeOK, spec.OutcomeFailed),
		"finding of `conduit doctor`":      allTexts(OK, Warning, Error, Unknown),
		"kind of a notification":           allTexts(notification.Kinds()...),
	} {
		if row := fmt.Sprintf("\n| %s | `%s` |", what, strings.Join(values, "`, `")); !strings.Contains(string(page),
			row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
}

// Every kind of notification can be selected.
func TestKindsOfNotificationsAreDeclared(t *testing.T) {
	if s, _ := config.Find("notify.kinds"); !slices.Equal(s.Values, allTexts(notification.Kinds()...)) {
		t.Errorf("notify.kinds allows %q, and there are %q", s.Values, notification.Kinds())
	}
}

func allTexts[T ~string](values ...T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}
