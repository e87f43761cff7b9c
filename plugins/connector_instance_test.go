package plugins_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/connector"
)

func TestInstanceID(t *testing.T) {
	for instance, want := range []string{"p:in", "p:in", "p:in/instance-2"} {
		id := connector.InstanceID("p:in", instance)
		if id != want || connector.DeclaredID(id) != "p:in" {
			t.Errorf("instance %d: %q of %q", instance, id, connector.DeclaredID(id))
		}
	}
}
