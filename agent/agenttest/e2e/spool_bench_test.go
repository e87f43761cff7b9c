package e2e_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

const (
	spoolBatch = 1000    // records per append
	spoolSync  = 4 << 20 // bytes per sync
)

// spoolRecords are records like the lines of a file: 140 bytes and metadata.
func spoolRecords() (records []record.Record, content int) {
	for n := range spoolBatch {
		r := record.Record{
			Operation: record.OperationCreate,
			Metadata: record.NewMetadata(map[string]string{
				record.KeySourceConnectorID: "collect:lines", record.KeyReadAt: strconv.Itoa(1795322891590886180 + n),
				"file.path": "/var/log/app.log",
			}),
			Key:   record.Raw(strconv.AppendInt(nil, int64(n), 10)),
			After: record.Raw(bytes.Repeat([]byte{'x'}, 140)),
		}
		records, content = append(records, r), content+len(strconv.Itoa(n))+140
	}
	return records, content
}

// BenchmarkSpool writes b.N records into a spool and reads them. The baseline is a loop that writes and syncs their
// keys and payloads: no implementation that survives power cuts can be faster.
func BenchmarkSpool(b *testing.B) {
	b.Run("floor", benchSpoolFloor)
	b.Run("in", func(b *testing.B) { benchSpoolIn(b, b.TempDir(), true) })
	b.Run("out", benchSpoolOut)
}

func benchSpoolFloor(b *testing.B) {
	_, size := spoolRecords()
	content := make([]byte, size)
	f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
	check(b, err)
	defer f.Close()
	b.ResetTimer()
	used, unsynced, n := cpuTime(b), 0, 0
	for ; n < b.N; n += spoolBatch {
		_, err := f.Write(content)
		check(b, err)
		if unsynced += size; unsynced >= spoolSync {
			check(b, f.Sync())
			unsynced = 0
		}
	}
	check(b, f.Sync())
	b.StopTimer()
	reportRecords(b, n, used)
}

// benchSpoolIn fills a spool, and returns the number of records in it.
func benchSpoolIn(b *testing.B, dir string, measure bool) int {
	records, size := spoolRecords()
	l, err := spoollog.Open(dir, spoollog.Options{})
	check(b, err)
	w := l.Writer()
	b.ResetTimer()
	used, n, content := cpuTime(b), 0, 0
	for ; n < b.N; n += spoolBatch {
		frames, _, err := spoollog.Encode(records)
		check(b, err)
		_, err = w.Append(b.Context(), frames)
		check(b, err)
		content += size
		if l.Pending() >= spoolSync {
			check(b, l.Flush(b.Context()))
		}
	}
	check(b, l.Flush(b.Context()))
	b.StopTimer()
	if measure {
		reportRecords(b, n, used)
		b.ReportMetric(float64(l.Counts().Written)/float64(content), "written/content")
	}
	check(b, l.Close())
	return n
}

func benchSpoolOut(b *testing.B) {
	dir := b.TempDir()
	n := benchSpoolIn(b, dir, false)
	l, err := spoollog.Open(dir, spoollog.Options{})
	check(b, err)
	c := l.Cursor(0)
	b.StartTimer()
	used, got := cpuTime(b), 0
	for got < n {
		records, _, err := c.Read(math.MaxUint64)
		check(b, err)
		got += len(records)
	}
	b.StopTimer()
	reportRecords(b, got, used)
	c.Close()
	check(b, l.Close())
}
