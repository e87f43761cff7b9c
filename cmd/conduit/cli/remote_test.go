package cli

import (
	"testing"
)

func TestAgentURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080": "https://127.0.0.1:8080", ":8080": "https://127.0.0.1:8080", "0.0.0.0:1": "https://127.0.0.1:1",
		"[::]:1": "https://127.0.0.1:1", "[::1]:1": "https://[::1]:1", "host:1": "https://host:1",
		"http://host/": "http://host", "https://host:1": "https://host:1", "host": "", "http://": "", "": "",
	} {
		got, err := agentURL("https", address)
		if (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
}
