package otlp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestRefusedCertificate hints at the certificate of the agent when an error does not name the cause.
func TestRefusedCertificate(t *testing.T) {
	shown := &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return nil, nil
	}}
	for _, c := range []struct {
		tls  *tls.Config
		err  string
		want bool
	}{
		{shown, "write: broken pipe", true},
		{shown, "remote error: tls: bad certificate", false},
		{&tls.Config{}, "write: broken pipe", false},
		{nil, "connection refused", false},
	} {
		var log bytes.Buffer
		newHealth(slog.New(slog.NewTextHandler(&log, nil)), "logs", &collector{tls: c.tls}).failed(errors.New(c.err))
		if got := strings.Contains(log.String(), "telemetry.otlp.cert-file"); got != c.want ||
			!strings.Contains(log.String(), c.err) {
			t.Errorf("%s: %s", c.err, log.String())
		}
	}
}
