package api_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// valueForms are the spellings of values: the usual one, the one of Kubernetes, and the one of Conduit.
var valueForms = map[string]*regexp.Regexp{
	"words joined by dashes": regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`),
	"CamelCase":              regexp.MustCompile(`^([A-Z][a-z]+)+$`),
	"as Conduit":             regexp.MustCompile(`^([A-Z]+(_[A-Z]+)+|in_place)$`),
}

// The values that answers may have are the values in the table of the page, each in a form that the page names.
func TestValuesAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\n## Values\n.*?\n## `).Find(page)
	what := map[string]string{} // by values
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^|]+)` \\| API[^|]*\\|$").FindAllStringSubmatch(
		string(table), -1) {
		what[strings.ReplaceAll(row[2], "`", "")] = row[1]
	}

	var document any
	if err := json.Unmarshal(do(newServer(newWorld(t)).Handler(), "GET", "/openapi/openapi.json", "").body,
		&document); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	eachEnum(document, func(values []string) {
		found[strings.Join(values, ", ")] = true
	})
	for values := range found {
		if what[values] == "" {
			t.Errorf("the page does not have the values %s", values)
		}
		for value := range strings.SplitSeq(values, ", ") {
			isForm(t, value, strings.Contains(what[values], "as Conduit"))
		}
	}
	for values, name := range what {
		if !found[values] {
			t.Errorf("no answer has the values of %s: %s", name, values)
		}
	}
}

func isForm(t *testing.T, value string, conduits bool) {
	t.Helper()
	var forms []string
	for name, form := range valueForms {
		if form.MatchString(value) {
			forms = append(forms, name)
		}
	}
	if len(forms) == 0 || slices.Contains(forms, "as Conduit") && !conduits {
		t.Errorf("%q has the form %v", value, forms)
	}
}

// eachEnum calls visit with the values of each enumeration in a JSON document.
func eachEnum(v any, visit func([]string)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			eachEnum(one, visit)
		}
	case map[string]any:
		if list, ok := v["enum"].([]any); ok {
			var values []string
			for _, one := range list {
				text, _ := one.(string)
				values = append(values, text)
			}
			visit(values)
		}
		for _, one := range v {
			eachEnum(one, visit)
		}
	}
}
