package plugins_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

func TestSetParts(t *testing.T) {
	var r progress.Report
	var parts []progress.Part
	for i := range int64(30) {
		parts = append(parts, progress.Part{Of: fmt.Sprintf("t/%02d", i), Records: i / 2})
	}
	r.SetParts(parts)
	if len(r.Parts) != 20 || r.Parts[0].Of != "t/28" || r.Parts[1].Of != "t/29" || r.Parts[19].Records != 5 {
		t.Errorf("got %v", r.Parts)
	}
	if r.SetParts([]progress.Part{{Of: "t/0"}}); len(r.Parts) != 0 {
		t.Errorf("a part that is not behind is listed: %v", r.Parts)
	}
}

func TestText(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bytes, records, seconds := int64(12_345_678), int64(7), 90.2
	for want, r := range map[string]progress.Report{
		"":                 {},
		"12.3 MB behind":   {Bytes: &bytes, Seconds: &seconds},
		"7 records behind": {Records: &records},
		"7 records behind (t/2: 4)": {Records: &records,
			Parts: []progress.Part{{Of: "t/2", Records: 4}, {Of: "t/0", Records: 3}}},
		"1m30s behind": {Seconds: &seconds},
		"orders 25 % (100 of 400 rows, 30s left)": {Snapshots: []progress.Snapshot{{Of: "orders", Rows: 100, Total: 400,
			StartedAt: start}}},
		"orders 50 % (200 of 400 rows, 20s left)": {Snapshots: []progress.Snapshot{{Of: "orders", Rows: 200, Total: 400,
			StartedAt: start, Resumed: 100}}},
		"orders 100 % (9 of 5 rows, 0s left), x 3 rows": {Snapshots: []progress.Snapshot{
			{Of: "orders", Rows: 9, Total: 5, StartedAt: start}, {Of: "x", Rows: 3, StartedAt: start}}},
	} {
		if got := r.Text(start.Add(10 * time.Second)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
