package builtintest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Open configures and opens a destination. It is torn down when the test ends.
func Open[D sdk.Destination](t testing.TB, d D, settings map[string]string) D {
	t.Helper()
	if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// Lost reports whether an error blames no record.
func Lost(err error) bool {
	var l interface{ Lost() bool }
	return errors.As(err, &l) && l.Lost()
}

// CheckWrite checks what is written for a record, want, or that a part of the error that refuses it is want.
func CheckWrite(t testing.TB, d sdk.Destination, r record.Record, written func() []string, want string) {
	t.Helper()
	n, err := d.Write(t.Context(), []record.Record{r})
	got := written()
	switch {
	case err == nil && (n != 1 || len(got) != 1 || got[0] != want):
		t.Errorf("wrote %d: %q, want %q", n, got, want)
	case err != nil && (n != 0 || len(got) > 0 || Lost(err) || !strings.Contains(err.Error(), want)):
		t.Errorf("wrote %d: %q, %v, want %q", n, got, err, want)
	}
}

// CheckSettings checks that Configure refuses good with each of the changes, which are JSON objects of settings, with
// an error that contains the other text. A null removes a setting.
func CheckSettings(
	t testing.TB, newDestination func() sdk.Destination, good, changes map[string]string,
) {
	t.Helper()
	for change, want := range changes {
		var values map[string]*string
		if err := json.Unmarshal([]byte(change), &values); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		settings := maps.Clone(good)
		for name, value := range values {
			if delete(settings, name); value != nil {
				settings[name] = *value
			}
		}
		d := newDestination()
		err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", change, err, want)
		}
	}
}
