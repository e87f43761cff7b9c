package otlp_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/telemetry/otlp"
)

func TestInvalidSettings(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t-token"
	for want, change := range map[string]func(*config.Telemetry){
		"telemetry.otlp.endpoint: \"localhost:4318\" is not a URL that begins with http:// or https://": func(
			c *config.Telemetry) {
			c.OTLP.Endpoint = "localhost:4318"
		},
		"telemetry.otlp.endpoint: \"http://\" is not": func(c *config.Telemetry) { c.OTLP.Endpoint = "http://" },
		"it is not a URL": func(c *config.Telemetry) { c.OTLP.Endpoint = "http://a b%zz" },
		"put credentials into telemetry.otlp.headers": func(c *config.Telemetry) {
			c.OTLP.Endpoint = "http://me:" + secret + "@host:1"
		},
		"a query or a fragment": func(c *config.Telemetry) { c.OTLP.Endpoint = "http://host:1/?token=" + secret },
		"it has a path": func(c *config.Telemetry) {
			c.OTLP.Endpoint, c.OTLP.Protocol = "http://host:1/v1", "grpc"
		},
		"need https://": func(c *config.Telemetry) {
			c.OTLP.Endpoint, c.OTLP.CAFile = "http://host:1", empty
		},
		"telemetry.otlp.headers: an item is not name=value": func(c *config.Telemetry) { c.OTLP.Headers = secret },
		"telemetry.otlp.headers: the header \"a b\"": func(c *config.Telemetry) {
			c.OTLP.Headers = "a b=" + secret
		},
		"telemetry.otlp.headers: the header \"a\"": func(c *config.Telemetry) {
			c.OTLP.Headers = "a=" + secret + "\nb: c"
		},
		"telemetry.otlp.attributes: an item is not name=value": func(c *config.Telemetry) { c.OTLP.Attributes = "=x" },
		"telemetry.otlp.ca-file: open /none":                   func(c *config.Telemetry) { c.OTLP.CAFile = "/none" },
		"has no certificate in PEM":                            func(c *config.Telemetry) { c.OTLP.CAFile = empty },
		"set it and telemetry.otlp.key-file, or neither":       func(c *config.Telemetry) { c.OTLP.CertFile = empty },
		"telemetry.otlp.cert-file and telemetry.otlp.key-file:": func(c *config.Telemetry) {
			c.OTLP.CertFile, c.OTLP.KeyFile = empty, empty
		},
		"telemetry.metrics.interval: it must be at least 1s": func(c *config.Telemetry) {
			c.Metrics.Interval = time.Millisecond
		},
	} {
		s := settings("https://host:1", "metrics,logs,traces")
		change(&s)
		_, err := otlp.New(otlp.Options{Settings: s, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
}

func TestCollectorWithTLS(t *testing.T) {
	c := &collector{t: t}
	s := httptest.NewTLSServer(c)
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil || !x509.NewCertPool().AppendCertsFromPEM(cert) {
		t.Fatal(err)
	}
	trusting := settings(s.URL+"/in", "traces")
	trusting.OTLP.CAFile = ca
	e, send := exporting(t, trusting)
	e.Tracer().Start(read(batchOf(""))).End(nil)
	send()
	if n := len(c.spansNamed("batch")); n != 1 {
		t.Errorf("%d spans arrived", n)
	}
	e, send = exporting(t, settings(s.URL+"/in", "traces"))
	e.Tracer().Start(read(batchOf(""))).End(nil)
	send()
	e.Counts(func(signal string, sent, dropped uint64) {
		if signal != "traces" || sent != 0 || dropped != 2 {
			t.Errorf("with an unknown authority, %d %s are sent and %d dropped", sent, signal, dropped)
		}
	})
}

// A collector that refuses a request may repeat its headers.
func TestSecretsInAnswers(t *testing.T) {
	var log bytes.Buffer
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no user has the token "+r.Header.Get("X-Token"), http.StatusUnauthorized)
	}))
	defer s.Close()
	with := settings(s.URL, "traces")
	with.OTLP.Headers = "X-Token=s3cr3t-token"
	e, err := otlp.New(otlp.Options{Settings: with, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	e.Tracer().Start(read(batchOf(""))).End(nil)
	over, end := context.WithCancel(t.Context())
	end()
	if err := e.Run(over, prometheus.NewRegistry()); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "401") || strings.Contains(text, "s3cr3t-token") {
		t.Errorf("the log is %s", text)
	}
}
