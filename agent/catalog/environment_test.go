package catalog_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
)

func TestEnvironmentSetting(t *testing.T) {
	environ := []string{"PATH=/bin", "HOME=/home", "SSL_CERT_DIR=/c", "SSL_CERT=x", "http_proxy=p",
		"CONDUIT_API_AUTH_READ_TOKEN_FILE=t",
		"CONDUIT_LOG_LEVEL=info", "CREDENTIALS_DIRECTORY=/run/c", "NOTIFY_SOCKET=/run/n", "AWS_SECRET_ACCESS_KEY=s"}
	inherited := []string{"PATH=/bin", "HOME=/home", "SSL_CERT_DIR=/c", "SSL_CERT=x", "http_proxy=p",
		"AWS_SECRET_ACCESS_KEY=s"}
	for setting, want := range map[string][]string{
		"":                               inherited,
		"inherit":                        inherited,
		"PATH, SSL_CERT_*,http_proxy":    {"PATH=/bin", "SSL_CERT_DIR=/c", "http_proxy=p"},
		"CONDUIT_LOG_LEVEL,HOME,NOTIFY*": {"HOME=/home"},
		"NOTHING":                        {},
	} {
		if got := catalog.Environment(environ, setting); !slices.Equal(got, want) || got == nil {
			t.Errorf("%s: %q, want %q", setting, got, want)
		}
	}
}
