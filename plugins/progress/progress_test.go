package progress_test

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

func TestText(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bytes, records, seconds := int64(12_345_678), int64(7), 90.2
	for want, r := range map[string]progress.Report{
		"":                 {},
		"12.3 MB behind":   {Bytes: &bytes, Seconds: &seconds},
		"7 records behind": {Records: &records},
		"1m30s behind":     {Seconds: &seconds},
		"orders 25 % (100 of 400 rows, 30s left)": {Snapshots: []progress.Snapshot{{Of: "orders", Rows: 100, Total: 400, StartedAt: start}}},
		"orders 50 % (200 of 400 rows, 20s left)": {Snapshots: []progress.Snapshot{{Of: "orders", Rows: 200, Total: 400, StartedAt: start, Resumed: 100}}},
		"orders 100 % (9 of 5 rows, 0s left), x 3 rows": {Snapshots: []progress.Snapshot{
			{Of: "orders", Rows: 9, Total: 5, StartedAt: start}, {Of: "x", Rows: 3, StartedAt: start}}},
	} {
		if got := r.Text(start.Add(10 * time.Second)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
