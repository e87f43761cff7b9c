//go:build minimal || no_cluster

package member_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/agent/config"
)

func TestNoCluster(t *testing.T) {
	if m, err := member.New(member.Needs{}); m != nil || err != nil {
		t.Errorf("alone: %v, %v", m, err)
	}
	m, err := member.New(member.Needs{Settings: config.Cluster{Name: "shop"}})
	if absent := member.Absent(); absent == nil || !strings.Contains(absent.Error(), "this build has no clusters") {
		t.Errorf("what is absent: %v", absent)
	}
	if m != nil || err == nil || !strings.Contains(err.Error(), "remove cluster.name from the settings or use another build") {
		t.Errorf("with a cluster: %v, %v", m, err)
	}
}
