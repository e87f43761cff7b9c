package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
)

func TestDoctorChecksTheSecretOfNotifications(t *testing.T) {
	for _, tt := range []struct {
		secret  string
		level   Level
		message string
	}{
		{"whsec_MDEyMzQ1Njc4OWFiY2RlZg==\n", OK, "valid"},
		{"a text of 24 characters.", OK, "valid"},
		{"hunter2", Error, "has 7 characters, but needs 24"},
		{"whsec_!!!!!!!!!!!!!!!!!!!!!!!!", Error, "is not base64"},
	} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(tt.secret), 0o600); err != nil {
			t.Fatal(err)
		}
		e := &examination{Program: &Program{}}
		e.config.Notify.Webhook = config.Webhook{URL: "https://hooks.example.com", SecretFile: file}
		if e.notifications(); len(e.findings) != 1 || e.findings[0].Level != tt.level ||
			!strings.Contains(e.findings[0].Message, tt.message) {
			t.Errorf("%q: found %v", tt.secret, e.findings)
		}
	}
}
