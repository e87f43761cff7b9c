package telemetry_test

import (
	"encoding/json"
	"testing"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

// Grafana can import the dashboard: panels do not overlap, each has queries that name a source, and the variables that
// the queries use are declared.
func TestDashboard(t *testing.T) {
	var d struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Title, Type string
			Datasource  struct{ Type, UID string }
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal(telemetry.Dashboard(), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 30 || len(d.Panels) < 20 || len(d.Templating.List) != 3 {
		t.Errorf("incomplete: %+v", d)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" ||
			p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W*p.GridPos.H == 0 {
			t.Errorf("a panel is not right: %+v", p)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
	}
}

// Rules have unique names and all information for a person whom an alert wakes.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, r := range telemetry.AlertRules() {
		if names[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
			r.Annotations["description"] == "" || r.For == "" {
			t.Errorf("incomplete: %+v", r)
		}
		names[r.Alert] = true
	}
	if len(names) < 15 {
		t.Errorf("only %d rules", len(names))
	}
}
