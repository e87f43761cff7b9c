package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

var trendWindows = []string{spec.Last15Minutes, spec.LastHour, spec.LastDay}

func trendCommand(p *Program) *ffcli.Command {
	var last string
	return p.Remote("trend", RemoteCommand{
		Usage: "conduit pipelines trend ID",
		Short: "Show rates, refusals, latency and lag of the last 15 minutes, hour and day.",
		Long: `Prints one line for each of these times; with --last, one line for each step of that time: 10 seconds
for 15m, a minute for 1h, 10 minutes for 24h. LATENCY is the mean time from reading a record
until it is settled. LAG is the highest age of the oldest unacknowledged record. The agent saves
the values when it stops, and every 10 minutes if a record has passed.

Examples:
  conduit pipelines trend orders
  conduit pipelines trend orders --last 1h`,
		Arguments: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&last, "last", "", "print the steps of `TIME`: 15m, 1h or 24h")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if last != "" && !slices.Contains(trendWindows, last) {
				return Invalidf("--last must be 15m, 1h or 24h, not %q", last)
			}
			if last != "" {
				one, err := r.Trend(ctx, args[0], last)
				if err != nil {
					return err
				}
				return r.Show(one, trendSteps(&one))
			}
			var all []spec.Trend
			for _, window := range trendWindows {
				one, err := r.Trend(ctx, args[0], window)
				if err != nil {
					return err
				}
				all = append(all, one)
			}
			return r.Show(all, trendSummary(all))
		},
	})
}

// trendSummary has a row for each window: means of rates and latencies, sums of refusals, the highest lag.
func trendSummary(all []spec.Trend) *terminal.Table {
	t := &terminal.Table{}
	t.Add("LAST", "RECORDS/S", "HIGHEST", "BYTES/S", "REFUSED", "LATENCY", "LAG")
	for i := range all {
		records, most, _ := summed(all[i].Records)
		bytes, _, _ := summed(all[i].Bytes)
		_, _, refused := summed(all[i].Refused)
		latency, _, _ := summed(all[i].Latency)
		_, lag, _ := summed(all[i].Lag)
		t.Add(all[i].Last, rateWords(records), rateWords(most), rateWords(bytes), numberWords(refused),
			timeWords(latency), timeWords(lag))
	}
	return t
}

// trendSteps has a row for each step that was measured.
func trendSteps(one *spec.Trend) *terminal.Table {
	t := &terminal.Table{}
	t.Add("FROM", "RECORDS/S", "BYTES/S", "REFUSED", "LATENCY", "LAG")
	for i, records := range one.Records {
		if records == nil {
			continue
		}
		t.Add(terminal.Moment(one.From.Add(time.Duration(i*one.Step)*time.Second)), rateWords(records),
			rateWords(one.Bytes[i]), numberWords(one.Refused[i]), timeWords(one.Latency[i]), timeWords(one.Lag[i]))
	}
	return t
}

// summed returns the mean, the maximum and the sum of the known values, nil without any.
func summed(values []*float64) (mean, most, sum *float64) {
	all, highest, n := 0.0, 0.0, 0
	for _, v := range values {
		if v != nil {
			all, highest, n = all+*v, max(highest, *v), n+1
		}
	}
	if n == 0 {
		return nil, nil, nil
	}
	m := all / float64(n)
	return &m, &highest, &all
}

func numberWords(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}

// timeWords returns a time in seconds as a duration, to hundredths of a second or of a millisecond.
func timeWords(v *float64) string {
	if v == nil {
		return "-"
	}
	d := time.Duration(*v * float64(time.Second))
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
