package member_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/spec"
)

// TestDeadLettersAreShownOnce checks that every dead letter is in exactly one row. Those of several instances are in
// the first row of the pipeline; a pipeline without a row gets an extra one.
func TestDeadLettersAreShownOnce(t *testing.T) {
	reports := []cluster.Report{
		{Member: "m1", DeadLetters: map[string]int64{"large": 2, "local": 3}},
		{Member: "m2", Address: "m2:8080", DeadLetters: map[string]int64{"local": 4, "local to m2": 5, "none": 0}},
	}
	shared := map[string]int64{"several": 6, "large": 7, "gone": 8}
	rows := []spec.ClusterPipeline{{ID: "several", Instance: 1}, {ID: "several", Instance: 2}, {ID: "large"},
		{ID: "quiet"}, {ID: "local"}}
	want := []spec.ClusterPipeline{
		{ID: "several", Instance: 1, SharedDeadLetters: 6},
		{ID: "several", Instance: 2},
		{ID: "large", SharedDeadLetters: 7, DeadLetters: []spec.MemberDeadLetters{{Member: "m1", Count: 2}}},
		{ID: "quiet"},
		{ID: "local", DeadLetters: []spec.MemberDeadLetters{{Member: "m1", Count: 3},
			{Member: "m2", Address: "m2:8080", Count: 4}}},
		{ID: "gone", SharedDeadLetters: 8},
		{ID: "local to m2", DeadLetters: []spec.MemberDeadLetters{{Member: "m2", Address: "m2:8080", Count: 5}}},
	}
	if diff := cmp.Diff(want, member.WithRefused(shared, reports, rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
