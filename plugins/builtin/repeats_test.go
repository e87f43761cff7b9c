package builtin_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
)

// TestConnectionErrorsHaveNoRepetition opens the connectors that connect in Open at an address without a server. The
// error must not contain any part twice; clients that try several ways repeat themselves.
func TestConnectionErrorsHaveNoRepetition(t *testing.T) {
	failed := map[string]bool{}
	for _, address := range []string{"127.0.0.1:1", "localhost:1"} {
		at := func(settings map[string]string) map[string]string {
			all := maps.Clone(settings)
			for k, v := range all {
				all[k] = strings.ReplaceAll(v, "127.0.0.1:1", address)
			}
			return all
		}
		check := func(name string, err error) {
			if err == nil {
				return // it connects later
			}
			failed[name] = true
			seen := map[string]bool{}
			for part := range strings.SplitSeq(strings.NewReplacer("\n", ": ", "; ", ": ").Replace(err.Error()), ": ") {
				if part = strings.TrimSpace(part); seen[part] || strings.Count(part, "dial") > 1 {
					t.Errorf("%s: %q is there twice: %v", name, part, err)
				}
				seen[part] = true
			}
			if strings.Count(err.Error(), "unable to dial") > 0 {
				t.Errorf("%s: the client's words are there beside those of the system: %v", name, err)
			}
		}
		for _, c := range builtin.All() {
			switch c.Name {
			case "kafka", "mqtt", "mysql", "nats", "postgres", "redis":
			default:
				continue
			}
			s, d := c.NewSource(), c.NewDestination()
			if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(at(minimal[c.Name+" source"]))); err !=
				nil {
				t.Fatal(err)
			}
			check(c.Name, s.Open(t.Context(), nil))
			if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(at(minimal[c.Name+" destination"]))); err !=
				nil {
				t.Fatal(err)
			}
			check(c.Name, d.Open(t.Context()))
			_, _ = s.Teardown(t.Context()), d.Teardown(t.Context())
		}
	}
	for _, name := range []string{"kafka", "mysql", "postgres"} {
		if !failed[name] {
			t.Errorf("%s connects later", name)
		}
	}
}
