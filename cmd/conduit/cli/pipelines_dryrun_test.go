package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

const dryRunFile = `version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: in
        type: source
        plugin: none
        processors: [%s]
      - id: out
        type: destination
        plugin: none
        settings: {password: $NOT_THERE}
        processors: [%s]
      - {id: plain, type: destination, plugin: none}
    processors: [%s]
`

// dryRunOutcome is the outcome of a dry run, in short.
type dryRunOutcome struct{ Out, Plain, Dead []string }

func tryDryRun(t *testing.T, file string, records ...string) (dryRunOutcome, *spec.DryRun, error) {
	t.Helper()
	request := spec.DryRunRequest{File: file, Advance: "1m", Start: new(time.Time)}
	*request.Start = time.Date(2024, 1, 1, 0, 0, 10, 0, time.UTC)
	for _, r := range records {
		request.Records = append(request.Records, json.RawMessage(r))
	}
	lookup := dryrun.Variables(func(name string) (string, bool) { return "x", name == "THERE" })
	r, err := dryrun.Do(context.Background(), request,
		dryrun.Options{Registry: &processor.Registry{Builtin: processors.All()}, Timeout: time.Minute}, lookup)
	if err != nil {
		return dryRunOutcome{}, nil, err
	}
	var got dryRunOutcome
	got.Out, got.Plain = dryRunPayloads(t, r.Destinations["out"]), dryRunPayloads(t, r.Destinations["plain"])
	for _, l := range r.DeadLetters {
		got.Dead = append(got.Dead, strings.Join(dryRunPayloads(t, []json.RawMessage{l.Record}), "")+" "+l.Processor)
	}
	return got, r, nil
}

func dryRunPayloads(t *testing.T, records []json.RawMessage) (all []string) {
	t.Helper()
	for _, text := range records {
		var r struct {
			Payload struct{ After json.RawMessage }
		}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(r.Payload.After))
	}
	return all
}

func TestDryRunRefusedPieceIsOneDeadLetter(t *testing.T) {
	file := fmt.Sprintf(dryRunFile, `{id: split, plugin: split, settings: {field: .Payload.After.l}}`,
		`{id: no-b, plugin: error, condition: '{{ eq .Payload.After.l "b" }}'}, {id: no-c, plugin: error, condition: `+
			`'{{ eq .Payload.After.l "c" }}'}`, "")
	got, _, err := tryDryRun(t, file, `{"payload":{"after":{"l":["a","b","c"]}}}`, `{"payload":{"after":{"l":["d"]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := dryRunOutcome{
		Out: []string{`{"l":"d"}`}, Plain: []string{`{"l":"a"}`, `{"l":"b"}`, `{"l":"c"}`, `{"l":"d"}`},
		Dead: []string{`{"l":["a","b","c"]} p:out:no-b`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDryRunEndsWindowsOfEveryPlace(t *testing.T) {
	sum := `{id: sum, plugin: aggregate, settings: {window.size: 20s, fields.n: "sum(.Payload.After.n)"}}`
	for place, want := range map[int]dryRunOutcome{
		0: {Out: []string{`{"n":3}`}, Plain: []string{`{"n":3}`}},
		1: {Out: []string{`{"n":3}`}, Plain: []string{`{"n":1}`, `{"n":2}`}},
		2: {Out: []string{`{"n":3}`}, Plain: []string{`{"n":3}`}},
	} {
		var at [3]string
		at[place] = sum
		got, r, err := tryDryRun(
			t, fmt.Sprintf(dryRunFile, at[0], at[1], at[2]), `{"payload":{"after":{"n":1}}}`,
			`{"payload":{"after":{"n":2}}}`,
		)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("place %d (-want +got):\n%s", place, diff)
		}
		if last := r.Records[len(r.Records)-1]; last.Number != 0 || len(last.Steps) == 0 {
			t.Errorf("place %d: what happened by time is not reported: %+v", place, r.Records)
		}
	}
}

func TestDryRunDestinationsDoNotShareRecords(t *testing.T) {
	got, r, err := tryDryRun(
		t,
		fmt.Sprintf(dryRunFile, "",
			`{id: set, plugin: field.set, settings: {field: .Payload.After.a.b, value: $THERE}}`, ""),
		`{"payload":{"after":{"a":{"b":"y"}}}}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dryRunOutcome{Out: []string{`{"a":{"b":"x"}}`}, Plain: []string{`{"a":{"b":"y"}}`}},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []spec.DryRunRecord{{Number: 1, Steps: []spec.DryRunStep{{Processor: "p:out:set",
		Diff: []string{`- .Payload.After.a.b: "y"`, `+ .Payload.After.a.b: "x"`}, Records: r.Destinations["out"]}}}}
	if diff := cmp.Diff(want, r.Records); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestDryRunInvalidRequests(t *testing.T) {
	good := fmt.Sprintf(dryRunFile, "", "", "")
	for want, c := range map[string]struct{ file, record string }{
		"line 1, column":                     {"nonsense", "{}"},
		"record 1: cannot parse record":      {good, `{"operation":"upsert"}`},
		`cannot find processor "field.sett"`: {fmt.Sprintf(dryRunFile, "", "", "{id: x, plugin: field.sett}"), "{}"},
		`"value": is required`: {fmt.Sprintf(dryRunFile, "", "", "{id: x, plugin: field.set, settings: {field: .Key}}"),
			"{}"},
	} {
		_, _, err := tryDryRun(t, c.file, c.record)
		if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, _, err := tryDryRun(t, good, make([]string, 1001)...); err == nil ||
		!strings.Contains(err.Error(), "the maximum is 1000") {
		t.Errorf("too many records: %v", err)
	}
}
