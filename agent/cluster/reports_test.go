package cluster_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster"
)

// TestReportsAreBounded publishes a report of more pipelines than the maximum: it keeps those with the most dead
// letters and the greatest lags. Publishing the same report again writes nothing.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	m := &memory{}
	r := &cluster.Reports{Store: m}
	n := cluster.Report{Member: "a", DeadLetters: map[string]int64{}, Lags: map[string]float64{}}
	for i := range 1200 {
		n.DeadLetters[fmt.Sprint("p", i)], n.Lags[fmt.Sprint("p", 1199-i)] = int64(i+1), float64(i+1)
	}
	for range 2 {
		if err := r.Publish(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	got := r.All()[0]
	if len(got.DeadLetters) != 1000 || got.DeadLetters["p199"] != 0 || got.DeadLetters["p200"] != 201 {
		t.Errorf("dead letters of %d pipelines, of p199 %d, of p200 %d", len(got.DeadLetters), got.DeadLetters["p199"],
			got.DeadLetters["p200"])
	}
	if len(got.Lags) != 1000 || got.Lags["p999"] != 201 || got.Lags["p1000"] != 0 {
		t.Errorf("%d lags, of p999 %v, of p1000 %v", len(got.Lags), got.Lags["p999"], got.Lags["p1000"])
	}
	if len(m.Written()) != 1 {
		t.Errorf("a report is written %d times", len(m.Written()))
	}
	clear(n.Lags)
	if err := r.Publish(t.Context(), n); err != nil || len(r.All()[0].Lags) != 0 {
		t.Errorf("after the lags are over: %v, %v", r.All()[0].Lags, err)
	}
}
