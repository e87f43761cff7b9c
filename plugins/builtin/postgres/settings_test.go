package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSettings checks that wrong settings are refused, without the password in the error.
func TestSettings(t *testing.T) {
	const url = "postgres://u:secret@h/db"
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{AllowPath: func(path string) error {
		return errors.New("the file " + path + " is out of bounds")
	}})
	for want, s := range map[string]map[string]string{
		"":                      {"url": url},
		`"url"`:                 {"tables": "t"},
		"invalid port":          {"url": "postgres://u:secret@h:port/db"},
		"must be postgres:":     {"url": "postgres://u:secret%zz@h/db"},
		"sslmode is invalid":    {"url": url + "?sslmode=secret"},
		"/etc/shadow is out of": {"url": url + "?sslrootcert=/etc/shadow"},
		"/etc/passwd is out of": {"url": "host=h password=secret sslkey = '/etc/passwd'"},
		"* stands alone":        {"url": url, "tables": "*,t"},
		"must be table/word":    {"url": url, "snapshot.again": "t"},
		"must be a size":        {"url": url, "slot.max-lag": "much"},
		`"logrepl.slotName"`:    {"url": url, "logrepl.slotName": "Slot"},
		`"slot.max-lag-action"`: {"url": url, "slot.max-lag-action": "panic"},
		`"heartbeat"`:           {"url": url, "heartbeat": "0s"},
	} {
		err := sdk.Standard(postgres.Connector()).NewSource().Configure(ctx, s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	d := sdk.Standard(postgres.Connector()).NewDestination()
	if err := d.Configure(ctx, map[string]string{"url": url, "table": "{{ nonsense"}); err == nil ||
		!strings.Contains(err.Error(), `"table"`) {
		t.Errorf("a template that cannot be parsed: %v", err)
	}
}

// TestUnreachable opens source and destination without a server: the error must not contain the password.
func TestUnreachable(t *testing.T) {
	settings := map[string]string{"url": "postgres://u:secret@127.0.0.1:1/db?connect_timeout=2"}
	s, d := sdk.Standard(postgres.Connector()).NewSource(), sdk.Standard(postgres.Connector()).NewDestination()
	if err := errors.Join(s.Configure(t.Context(), settings), d.Configure(t.Context(), settings)); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{s.Open(t.Context(), nil), d.Open(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "cannot connect to PostgreSQL") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	if err := errors.Join(s.Teardown(t.Context()), d.Teardown(t.Context())); err != nil {
		t.Error(err)
	}
}
