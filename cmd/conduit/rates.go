package main

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"
)

// counts are the records that sources have read, by pipeline, at one time.
type counts struct {
	at      time.Time
	records map[string]float64
}

// counts asks the agent for its counts.
func (r *remote) counts(ctx context.Context) (counts, error) {
	text, err := r.Metrics(ctx)
	if err != nil {
		return counts{}, err
	}
	return counts{time.Now(), sourceRecords(text)}, nil
}

// sourceRecords adds up the records that all sources of a pipeline have read. Lines have the form
// like conduit_connector_records_total{…,pipeline_id="orders",…,type="source"} 42.
func sourceRecords(metrics []byte) map[string]float64 {
	records := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, len(metrics)+1)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "conduit_connector_records_total{")
		labels, value, _ := strings.Cut(rest, "} ")
		if !ok || !strings.Contains(","+labels, `,type="source"`) {
			continue
		}
		_, pipeline, _ := strings.Cut(","+labels, `,pipeline_id="`)
		pipeline, _, _ = strings.Cut(pipeline, `"`)
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			records[pipeline] += n
		}
	}
	return records
}

// rates returns the records per second between two counts, by pipeline. A pipeline that
// was not there before has none.
func (c counts) rates(before counts) map[string]float64 {
	rates := map[string]float64{}
	seconds := c.at.Sub(before.at).Seconds()
	for id, n := range c.records {
		if was, ok := before.records[id]; ok && seconds > 0 && n >= was {
			rates[id] = (n - was) / seconds
		}
	}
	return rates
}
