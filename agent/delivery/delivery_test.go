package delivery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// destination returns a destination that has accepted nothing for a while, modified by f.
func destination(since time.Duration, f func(*delivery.Stage)) delivery.Stage {
	s := delivery.Stage{Kind: spec.StageDestination, Since: ago(since)}
	s.ID, s.Type, s.Doing, s.Outstanding = "p:out", spec.TypeDestination, measure.Writing, 3
	if f != nil {
		f(&s)
	}
	return s
}

func source(since time.Duration, doing measure.Doing, report *measure.Report) delivery.Stage {
	s := delivery.Stage{Kind: spec.StageSource}
	s.ID, s.Type, s.Doing, s.Report = "p:in", spec.TypeSource, doing, report
	if since > 0 {
		s.Since = ago(since)
	}
	return s
}

func reported(count int, first, last time.Duration) *measure.Report {
	return &measure.Report{Text: "connection refused", First: ago(first), Last: ago(last), Count: count}
}

// Each stage that holds its pipeline up is found, with the reason and the time. A stage that waits deliberately is
// not.
func TestJudgeStages(t *testing.T) {
	queue := destination(30*time.Second, func(s *delivery.Stage) {
		s.Kind, s.ID = spec.StageQueue, "p:dead-letter-queue"
	})
	processor := destination(time.Minute, func(s *delivery.Stage) {
		s.Kind, s.ID, s.Doing = spec.StageProcessor, "p:mask", measure.Processing
	})
	for name, tt := range map[string]struct {
		stages []delivery.Stage
		want   string // reason, stage and seconds since; "" for none
	}{
		"nothing outstanding":  {[]delivery.Stage{source(0, measure.Reading, nil), {Kind: spec.StageDestination}}, ""},
		"it just got a record": {[]delivery.Stage{destination(time.Second, nil)}, ""},
		"it hangs":             {[]delivery.Stage{destination(20*time.Second, nil)}, "DestinationStuck p:out 20"},
		"it retries": {[]delivery.Stage{destination(4*time.Second, func(s *delivery.Stage) {
			s.Report = reported(2, 3*time.Second, time.Second)
		})},
			"DestinationRetrying p:out 4"},
		"an error a moment ago": {[]delivery.Stage{destination(4*time.Second, func(s *delivery.Stage) {
			s.Report = reported(1, time.Second, time.Second)
		})}, ""},
		"it retried long ago, and hangs": {[]delivery.Stage{destination(5*time.Minute, func(s *delivery.Stage) {
			s.Report = reported(2, 4*time.Minute, 3*time.Minute)
		})},
			"DestinationStuck p:out 300"},
		"an error, and nothing outstanding": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{Report: reported(3, time.Minute, 0)}}}, ""},
		"it refuses every record": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Refusal: reported(20, 25*time.Second, time.Second)}}},
			"DestinationRefuses p:out 25"},
		"it refuses a few": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Refusal: reported(3, 5*time.Second, time.Second)}}}, ""},
		"isolated, it fails for long, and its log takes records": {[]delivery.Stage{{Kind: spec.StageDestination,
			PassedAt: ago(time.Second), Stage: measure.Stage{ID: "p:out", Failure: reported(9, 40*time.Second, 0)}}},
			"DestinationRetrying p:out 40"},
		"isolated, it failed a moment ago": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Failure: reported(2, 5*time.Second, 0)}}}, ""},
		"isolated, it retries by itself, and its log takes records": {[]delivery.Stage{{Kind: spec.StageDestination,
			PassedAt: ago(time.Second), Stage: measure.Stage{ID: "p:out", Held: ago(4 * time.Second),
				Report: reported(3, 4*time.Second, time.Second)}}}, "DestinationRetrying p:out 4"},
		"isolated, it is slow": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Held: ago(time.Minute)}}}, ""},
		"isolated, it hangs": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Held: ago(3 * time.Minute)}}}, "DestinationStuck p:out 180"},
		"isolated, it reported errors, and has settled all": {[]delivery.Stage{{Kind: spec.StageDestination,
			Stage: measure.Stage{ID: "p:out", Report: reported(3, 4*time.Second, time.Second)}}}, ""},
		"it gathers a batch for a minute": {[]delivery.Stage{destination(50*time.Second, func(s *delivery.Stage) {
			s.Doing, s.Patience = measure.Gathering, time.Minute
		})}, ""},
		"it gathers for longer than it should": {[]delivery.Stage{destination(90*time.Second, func(s *delivery.Stage) {
			s.Doing, s.Patience = measure.Gathering, time.Minute
		})},
			"DestinationStuck p:out 90"},
		"it gathers without a delay": {[]delivery.Stage{destination(time.Hour, func(s *delivery.Stage) {
			s.Doing, s.Patience = measure.Gathering, -1
		})}, ""},
		"a record a minute": {[]delivery.Stage{destination(59*time.Second, func(s *delivery.Stage) {
			s.Usual = time.Minute
		})}, ""},
		"a record a minute, and now none": {[]delivery.Stage{destination(2*time.Minute, func(s *delivery.Stage) {
			s.Usual = time.Minute
		})},
			"DestinationStuck p:out 120"},
		"it is being opened for long": {[]delivery.Stage{destination(20*time.Second, func(s *delivery.Stage) {
			s.Doing, s.Outstanding = measure.Opening, 0
		})},
			"DestinationStuck p:out 20"},
		"the claim is not confirmed": {[]delivery.Stage{destination(20*time.Second, func(s *delivery.Stage) {
			s.Doing = measure.Unclaimed
		})}, "WaitingForCluster p:out 20"},
		"the dead-letter queue hangs": {[]delivery.Stage{destination(40*time.Second, nil), queue},
			"DeadLetterQueueStuck p:dead-letter-queue 30"},
		"a processor hangs": {[]delivery.Stage{source(0, measure.Blocked, nil), processor},
			"ProcessorStuck p:mask 60"},
		"one of two destinations": {[]delivery.Stage{destination(0, nil),
			destination(30*time.Second, func(s *delivery.Stage) { s.ID = "p:other" })},
			"DestinationStuck p:other 30"},
		"a processor refuses every record": {[]delivery.Stage{{Kind: spec.StageProcessor,
			Stage: measure.Stage{ID: "p:mask", Refusal: reported(20, 25*time.Second, time.Second)}}},
			"ProcessorRefuses p:mask 25"},
		"a source is idle": {[]delivery.Stage{source(0, measure.Reading, nil)}, ""},
		"a source warned once": {[]delivery.Stage{source(0, measure.Reading, reported(1, time.Minute, time.Minute))},
			""},
		"a source cannot connect": {[]delivery.Stage{source(0, measure.Reading,
			reported(5, 40*time.Second, 10*time.Second))}, "SourceRetrying p:in 40"},
		"a source could not connect": {[]delivery.Stage{source(0, measure.Reading,
			reported(5, 10*time.Minute, 6*time.Minute))}, ""},
		"a source hangs in Open": {[]delivery.Stage{source(20*time.Second, measure.Opening, nil)},
			"SourceStuck p:in 20"},
		"a source retries in Open": {[]delivery.Stage{source(5*time.Second, measure.Opening,
			reported(1, 3*time.Second, 3*time.Second))}, "SourceRetrying p:in 5"},
		"a source hangs in Ack": {[]delivery.Stage{source(20*time.Second, measure.Acking, nil)},
			"SourceStuck p:in 20"},
		"a source waits for its turn": {[]delivery.Stage{source(0, measure.Blocked, nil)}, ""},
	} {
		got := delivery.Judge(now, &delivery.Observed{Limits: &delivery.DefaultLimits,
			State: spec.State{Phase: spec.PhaseRunning, Since: ago(time.Hour)}, Stages: tt.stages})
		check(t, name, got, tt.want)
	}
}

func check(t *testing.T, name string, got *spec.Stall, want string) {
	t.Helper()
	text := ""
	if got != nil {
		text = strings.Join([]string{got.Reason, got.Stage, now.Sub(got.Since).String()}, " ")
		text = strings.ReplaceAll(text, "  ", " ")
		if got.Message == "" || got.Stage != "" && !strings.Contains(got.Message, got.Stage) {
			t.Errorf("%s: the message is %q", name, got.Message)
		}
	}
	if fields := strings.Fields(want); len(fields) > 0 {
		d, _ := time.ParseDuration(fields[len(fields)-1] + "s")
		want = strings.Join(append(fields[:len(fields)-1], d.String()), " ")
	}
	if text != want {
		t.Errorf("%s: %q, want %q", name, text, want)
	}
}

// A stall ends when it is proved to be over, and not before.
func TestJudgeStalls(t *testing.T) {
	failed := &spec.Stall{Reason: "DestinationFailed", Stage: "p:out", Message: "p:out failed",
		Since: ago(5 * time.Minute), Failed: true}
	stuck := &spec.Stall{Reason: "DestinationStuck", Stage: "p:out", Message: "p:out hangs",
		Since: ago(5 * time.Minute)}
	restarted := *failed
	restarted.Restart = ago(15 * time.Second)
	away := &spec.Stall{Reason: spec.StallCluster, Message: "no member", Since: ago(5 * time.Minute)}
	quiet := &spec.Stall{Reason: "SourceSilent", Stage: "p:in", Message: "p:in is silent", Since: ago(5 * time.Minute)}
	silent := func(o *delivery.Observed) { o.Silent = ago(5 * time.Minute) }
	reading := source(0, measure.Reading, nil)
	passed := destination(0, func(s *delivery.Stage) { s.PassedAt, s.Since = ago(time.Second), time.Time{} })
	other := destination(0, func(s *delivery.Stage) { s.ID, s.PassedAt = "p:other", ago(time.Second) })
	waits := destination(5*time.Second, nil)
	idle := destination(0, func(s *delivery.Stage) { s.Since, s.Outstanding = time.Time{}, 0 })
	for name, tt := range map[string]struct {
		phase  spec.Phase
		lasts  time.Duration // the phase
		before *spec.Stall
		stages []delivery.Stage
		change func(*delivery.Observed)
		want   string
	}{
		"its source is silent": {spec.PhaseRunning, time.Hour, nil, []delivery.Stage{reading, idle}, silent,
			"SourceSilent p:in 300"},
		"its source stays silent": {spec.PhaseRunning, time.Hour, quiet, []delivery.Stage{reading, idle}, silent,
			"SourceSilent p:in 300"},
		"its source reads again": {spec.PhaseRunning, time.Hour, quiet, []delivery.Stage{reading, idle}, nil, ""},
		"both of its sources are silent": {spec.PhaseRunning, time.Hour, nil,
			[]delivery.Stage{reading, reading, idle}, silent, "SourceSilent  300"},
		"its source has never read, and nobody expects it to": {spec.PhaseRunning, 100 * time.Hour, nil,
			[]delivery.Stage{reading, idle}, nil, ""},
		"its destination is stuck, and its source silent": {spec.PhaseRunning, time.Hour, quiet,
			[]delivery.Stage{reading, destination(time.Minute, nil)}, silent, "DestinationStuck p:out 60"},
		"it works again, and its source is silent": {spec.PhaseRunning, time.Hour, stuck,
			[]delivery.Stage{reading, passed}, silent, "SourceSilent p:in 300"},
		"it recovers":     {spec.PhaseRecovering, time.Second, failed, nil, nil, "DestinationFailed p:out 300"},
		"it is degraded":  {spec.PhaseDegraded, time.Hour, failed, nil, nil, "DestinationFailed p:out 300"},
		"it starts again": {spec.PhaseStarting, time.Second, failed, nil, nil, "DestinationFailed p:out 300"},
		"it runs again, and nothing is delivered": {spec.PhaseRunning, 10 * time.Second, failed,
			[]delivery.Stage{waits}, nil, "DestinationFailed p:out 300"},
		"it delivers, and has only begun": {spec.PhaseRunning, 10 * time.Second, failed,
			[]delivery.Stage{passed}, nil, "DestinationFailed p:out 300"},
		"it delivers steadily": {spec.PhaseRunning, 15 * time.Second, failed,
			[]delivery.Stage{passed}, nil, ""},
		"it delivers, and failed after that lately": {spec.PhaseRunning, 15 * time.Second, failed,
			[]delivery.Stage{passed}, func(o *delivery.Observed) {
				o.Flapped = 20 * time.Second
			}, "DestinationFailed p:out 300"},
		"it delivers for longer than it did lately": {spec.PhaseRunning, 40 * time.Second, failed,
			[]delivery.Stage{passed}, func(o *delivery.Observed) {
				o.Flapped = 20 * time.Second
			}, ""},
		"another destination delivers": {spec.PhaseRunning, time.Hour, failed,
			[]delivery.Stage{waits, other}, nil, "DestinationFailed p:out 300"},
		"a person restarted it, and it delivers": {spec.PhaseRunning, time.Second, &restarted,
			[]delivery.Stage{passed}, func(o *delivery.Observed) { o.Flapped = 20 * time.Second }, ""},
		"a person restarted it, and nothing is delivered": {spec.PhaseRunning, 10 * time.Second, &restarted,
			[]delivery.Stage{waits}, nil, "DestinationFailed p:out 300"},
		"a person asked for a restart, and the former run goes on": {spec.PhaseRunning, time.Minute, &restarted,
			[]delivery.Stage{idle}, func(o *delivery.Observed) { o.Failed = time.Minute }, "DestinationFailed p:out 300"},
		"a person restarted it a moment ago, and there is nothing to do": {spec.PhaseRunning, time.Second, &restarted,
			[]delivery.Stage{idle}, nil, "DestinationFailed p:out 300"},
		"a person restarted it, and there has been nothing to do": {spec.PhaseRunning, 2 * time.Second, &restarted,
			[]delivery.Stage{idle}, func(o *delivery.Observed) { o.Failed = time.Minute }, ""},
		"there has been nothing to do for a moment": {spec.PhaseRunning, 29 * time.Second, failed,
			[]delivery.Stage{idle}, nil, "DestinationFailed p:out 300"},
		"there has been nothing to do for long": {spec.PhaseRunning, 30 * time.Second, failed,
			[]delivery.Stage{idle}, nil, ""},
		"it has not run for as long as until failing": {spec.PhaseRunning, time.Minute, failed, []delivery.Stage{idle},
			func(o *delivery.Observed) { o.Failed = 45 * time.Second }, "DestinationFailed p:out 300"},
		"it retries after a failure": {spec.PhaseRunning, time.Minute, failed,
			[]delivery.Stage{destination(5*time.Second, func(s *delivery.Stage) {
				s.Report = reported(2, 3*time.Second, 0)
			})}, nil,
			"DestinationRetrying p:out 300"},
		"it was stuck and passed a record": {spec.PhaseRunning, time.Hour, stuck, []delivery.Stage{passed}, nil,
			""},
		"it was restarted by hand while stuck": {spec.PhaseRunning, 2 * time.Second, stuck, []delivery.Stage{waits},
			nil, "DestinationStuck p:out 300"},
		"the agent was restarted while stuck": {spec.PhaseStopped, time.Second, stuck, nil, nil,
			"DestinationStuck p:out 300"},
		"it stops, to be replaced, while stuck": {spec.PhaseStopping, time.Second, stuck, []delivery.Stage{waits}, nil,
			"DestinationStuck p:out 300"},
		"the pipeline is stopped":    {spec.PhaseStopped, time.Hour, nil, nil, nil, ""},
		"it starts":                  {spec.PhaseStarting, 29 * time.Second, nil, nil, nil, ""},
		"its plugins do not come up": {spec.PhaseStarting, 30 * time.Second, nil, nil, nil, "StartStuck 30"},
		"a destination hangs while it starts": {spec.PhaseStarting, 25 * time.Second, nil,
			[]delivery.Stage{destination(20*time.Second, func(s *delivery.Stage) { s.Doing = measure.Opening })}, nil,
			"DestinationStuck p:out 20"},
		"no member runs it": {spec.PhaseStopped, time.Hour, nil, nil, func(o *delivery.Observed) {
			o.Unplaced = ago(31 * time.Second)
		}, "WaitingForCluster 31"},
		"no member runs it yet": {spec.PhaseStopped, time.Hour, nil, nil, func(o *delivery.Observed) {
			o.Unplaced = ago(3 * time.Second)
		}, ""},
		"another member runs it by now": {spec.PhaseStopped, time.Hour, away, nil, nil, ""},
		"this member runs it by now":    {spec.PhaseRunning, time.Second, away, nil, nil, ""},
	} {
		o := &delivery.Observed{Limits: &delivery.DefaultLimits, State: spec.State{Phase: tt.phase,
			Since: ago(tt.lasts), Stall: tt.before}, Stages: tt.stages, Confirmed: ago(10 * time.Second)}
		if tt.change != nil {
			tt.change(o)
		}
		check(t, name, delivery.Judge(now, o), tt.want)
	}
}
