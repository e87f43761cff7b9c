package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var ackLag = suite{
	name:  "ack lag",
	title: "From being made to being acknowledged to the source, an executable; positions are committed every 50 ms",
	columns: append(slices.Clone(times),
		column{name: "from settled to acknowledged, 99 % at most ms", format: "%.0f"},
		column{name: "a commit, mean ms", format: "%.2f"}),
	cases: []testCase{
		acknowledged("1,000 records/s", "rate: 1000"),
		acknowledged("at full speed", "rate: 0"),
	},
}

func acknowledged(name, rate string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		var metrics string
		from := source("standalone:timed", rate+", acks: acks.txt, "+twoFields)
		_, err := b.pass(ctx, []string{pipeline(0, from, toFile("builtin", 0))},
			func(ctx context.Context, _ *bench, a *agent) (func() error, error) {
				return func() (err error) { metrics, err = a.metrics(ctx); return err }, nil
			})
		if err != nil {
			return nil, err
		}
		late, err := readDurations(b.path("acks.txt"))
		if err != nil {
			return nil, err
		}
		values, err := distribution(late)
		return append(values, 1000*within(metrics, "conduit_source_ack_lag_seconds", .99),
			1000*mean(metrics, "conduit_commit_duration_seconds")), err
	}}
}

// readDurations reads durations in nanoseconds, one per line.
func readDurations(path string) ([]time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []time.Duration
	for line := range strings.Lines(string(text)) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		all = append(all, time.Duration(ns))
	}
	return all, nil
}

// metrics returns the current metrics of the agent.
func (a *agent) metrics(ctx context.Context) (string, error) {
	address, err := a.address(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = get("http://"+address+"/metrics", &text)
	return text.String(), err
}

// within returns the lowest bound of a histogram that a share q of the values does not exceed.
func within(metrics, name string, q float64) float64 {
	count := sample(metrics, name+"_count")
	for _, bucket := range regexp.MustCompile(name+`_bucket{.*le="([^"]+)"} (\S+)`).FindAllStringSubmatch(metrics, -1) {
		bound, _ := strconv.ParseFloat(bucket[1], 64)
		if n, _ := strconv.ParseFloat(bucket[2], 64); n >= q*count {
			return bound
		}
	}
	return math.Inf(1)
}

// mean returns the mean of the values of a histogram.
func mean(metrics, name string) float64 {
	return sample(metrics, name+"_sum") / sample(metrics, name+"_count")
}

// sample returns the value of the first series with that name.
func sample(metrics, name string) float64 {
	found := regexp.MustCompile(`(?m)^` + name + `(?:{.*})? (\S+)`).FindStringSubmatch(metrics)
	if found == nil {
		return math.NaN()
	}
	v, _ := strconv.ParseFloat(found[1], 64)
	return v
}

// total returns the sum of all series with that name.
func total(metrics, name string) (sum float64) {
	for _, found := range regexp.MustCompile(`(?m)^`+name+`(?:{.*})? (\S+)`).FindAllStringSubmatch(metrics, -1) {
		v, _ := strconv.ParseFloat(found[1], 64)
		sum += v
	}
	return sum
}
