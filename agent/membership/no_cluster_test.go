//go:build minimal || no_cluster

package membership_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/membership"
)

func TestNoCluster(t *testing.T) {
	if m, err := membership.New(membership.Needs{}); m != nil || err != nil {
		t.Errorf("alone: %v, %v", m, err)
	}
	m, err := membership.New(membership.Needs{Settings: config.Cluster{Name: "shop"}})
	if absent := membership.Absent(); absent == nil || !strings.Contains(absent.Error(), "this build has no clusters") {
		t.Errorf("what is absent: %v", absent)
	}
	if m != nil || err == nil || !strings.Contains(err.Error(), "remove cluster.name from the settings or use another build") {
		t.Errorf("with a cluster: %v, %v", m, err)
	}
}
