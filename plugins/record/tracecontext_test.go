package record_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContext(t *testing.T) {
	for _, tt := range []struct{ parent, state, wantParent, wantState string }{
		{traceParent, "", traceParent, ""},
		{traceParent, "a=1,b=2", traceParent, "a=1,b=2"},
		{traceParent, "a=\n", traceParent, ""},
		{traceParent, strings.Repeat("x", 5000), traceParent, ""},
		{"01" + traceParent[2:] + "-more", "a=1", "01" + traceParent[2:] + "-more", "a=1"},
		{"", "a=1", "", ""},
		{traceParent + "-more", "a=1", "", ""},
		{"01" + traceParent[2:] + "more", "", "", ""},
		{"01" + traceParent[2:] + "-" + strings.Repeat("x", 500), "", "", ""},
		{"01" + traceParent[2:] + "-\r\n", "", "", ""},
		{"ff" + traceParent[2:], "", "", ""},
		{strings.ToUpper(traceParent), "", "", ""},
		{traceParent[:54], "", "", ""},
		{strings.ReplaceAll(traceParent, "-", "_"), "", "", ""},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", "", ""},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", "", ""},
	} {
		var m record.Metadata
		m.Set("zone", "last of all")
		m.SetTraceContext(tt.parent, tt.state)
		if parent, state := m.TraceContext(); parent != tt.wantParent || state != tt.wantState {
			t.Errorf("%q and %q become %q and %q", tt.parent, tt.state, parent, state)
		}
		if want := map[bool]int{false: 1, true: 2}[tt.wantParent != ""] + len(tt.wantState[:min(1, len(tt.wantState))]); len(
			m) != want {
			t.Errorf("%q and %q are kept as %v", tt.parent, tt.state, m)
		}
		m = record.NewMetadata(map[string]string{record.KeyTraceParent: tt.parent, record.KeyTraceState: tt.state})
		if parent, state := m.TraceContext(); parent != tt.wantParent || state != tt.wantState {
			t.Errorf("%q and %q of a processor are sent as %q and %q", tt.parent, tt.state, parent, state)
		}
	}
}

func TestTraceContextOfSeveralRecords(t *testing.T) {
	with := func(parent, state string) (r record.Record) {
		r.Metadata.SetTraceContext(parent, state)
		return r
	}
	other := strings.Replace(traceParent, "4bf9", "0000", 1)
	for name, tt := range map[string]struct {
		records               []record.Record
		wantParent, wantState string
	}{
		"none":       {nil, "", ""},
		"one":        {[]record.Record{with(traceParent, "a=1")}, traceParent, "a=1"},
		"the same":   {[]record.Record{with(traceParent, "a=1"), with(traceParent, "a=1")}, traceParent, "a=1"},
		"two":        {[]record.Record{with(traceParent, ""), with(other, "")}, "", ""},
		"two states": {[]record.Record{with(traceParent, "a=1"), with(traceParent, "a=2")}, "", ""},
		"only some":  {[]record.Record{with(traceParent, ""), with("", "")}, "", ""},
		"some first": {[]record.Record{with("", ""), with(traceParent, "")}, "", ""},
	} {
		if parent, state := record.TraceContext(tt.records); parent != tt.wantParent || state != tt.wantState {
			t.Errorf("%s: %q and %q", name, parent, state)
		}
	}
}
