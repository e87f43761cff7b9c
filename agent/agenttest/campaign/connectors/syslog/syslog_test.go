package syslog_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/syslog"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestRsyslogSends receives messages of logger from a real syslog daemon.
func TestRsyslogSends(t *testing.T) {
	load.Parallel(t, load.Server)
	logger := server.Need(t, "logger", "bsdutils")
	for _, protocol := range []string{"udp", "tcp"} {
		s, addr := source(t, "protocols", protocol)
		_, port, _ := net.SplitHostPort(addr)
		r := server.StartRsyslog(t, fmt.Sprintf(`action(type="omfwd" target="127.0.0.1" port=%q protocol=%q `+
			`template="RSYSLOG_SyslogProtocol23Format" TCP_Framing="octet-counted")`, port, protocol))
		_, port, _ = net.SplitHostPort(r.Addr)
		for i := range 5 {
			send := exec.Command(logger, "--server", "127.0.0.1", "--port", port, "--tcp", "--rfc5424", "--tag", "test",
				"--priority", "local3.err", "--octet-count", fmt.Sprintf("message %d", i))
			if out, err := send.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		for i, m := range fromTest(t, s, 5) {
			if m["message"] != fmt.Sprintf("message %d", i) || m["severity"] != "err" || m["facility"] != "local3" ||
				m["timestamp"] == nil {
				t.Errorf("%s: got %v", protocol, m)
			}
		}
	}
}

// fromTest returns the next n messages of the application "test", and skips messages of the daemon itself.
func fromTest(t *testing.T, s sdk.Source, n int) (all []map[string]any) {
	t.Helper()
	for len(all) < n {
		for _, r := range read(t, s, 1) {
			if m, _ := r.After.Structured(); m["appname"] == "test" {
				all = append(all, m)
			}
		}
	}
	return all
}

// TestRsyslogReceives sends to a real syslog daemon.
func TestRsyslogReceives(t *testing.T) {
	load.Parallel(t, load.Server)
	r := server.StartRsyslog(t, "")
	for _, more := range [][]string{{"format", "rfc5424"}, {"format", "rfc3164", "framing", "newline"}} {
		d := destination(t, r.Addr, more...)
		if n, err := d.Write(t.Context(), some("one "+more[1], "two "+more[1])); n != 2 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
		wait.For(t, "both are there", func() bool {
			content, _ := os.ReadFile(r.Output)
			return strings.Contains(strings.ReplaceAll(string(content), "\n ", "\n"), "one "+more[1]+"\n") &&
				strings.Contains(string(content), "two "+more[1]+"\n")
		})
	}
}

// source is an opened source, and its address.
func source(t testing.TB, more ...string) (*syslog.Source, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	settings := map[string]string{"address": addr}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return plugintest.OpenSource(t, &syslog.Source{}, settings, nil), addr
}

func read(t testing.TB, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, records...)
	}
	return all
}

func destination(t testing.TB, addr string, more ...string) sdk.Destination {
	t.Helper()
	settings := map[string]string{"address": addr, "sdk.record.format": "template",
		"sdk.record.format.options": `{{ printf "%s" .Payload.After }}`, "retry.timeout": "0s"}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	d := sdk.Standard(syslog.Connector()).NewDestination()
	if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

func some(texts ...string) (all []record.Record) {
	for _, text := range texts {
		r := record.Record{Position: record.Position(text), Operation: record.OperationCreate,
			After: record.Raw([]byte(text))}
		r.Metadata.Set("level", "warning")
		all = append(all, r)
	}
	return all
}
