package e2e_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// replace puts text at path by renaming a new file.
func replace(t *testing.T, path, text string) {
	t.Helper()
	made := agenttest.SecretFile(t, text)
	if err := os.Rename(made, path); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTokensAreRenewed changes the files of the tokens while the agent runs.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	reader, admin := agenttest.SecretFile(t, "reader\n"), agenttest.SecretFile(t, "admin\n")
	w := startWeb(t, "", func(c *config.Config) {
		c.API.Auth = config.Auth{ReadTokenFile: reader, AdminTokenFile: admin}
	})
	valid := func(after string, tokens ...string) {
		t.Helper()
		for _, one := range []string{"reader", "reader 2", "admin", "admin 2", "admin 3", "admin 4", ""} {
			got := w.Do("GET", "/v1/pipelines", "", "Authorization", "Bearer "+one)
			refused := got.Status == http.StatusUnauthorized || got.Status == http.StatusTooManyRequests
			if want := slices.Contains(tokens, one); !want && !refused || want && got.Status != http.StatusOK {
				t.Errorf("after %s: token %q is valid %t: %d %s", after, one, want, got.Status, got.Body)
			}
		}
	}
	valid("the start", "reader", "admin")
	replace(t, admin, "admin 2\n")
	valid("a file was replaced", "reader", "admin 2")
	rewrite(t, reader, "reader 2")
	valid("a file was written again", "reader 2", "admin 2")
	was, err := os.Stat(admin)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, admin, "admin 3\n")
	if err := os.Chtimes(admin, was.ModTime(), was.ModTime()); err != nil { // as if both were written at once
		t.Fatal(err)
	}
	valid("a text of the same length at the same time", "reader 2", "admin 3")
	rewrite(t, admin, " \n")
	valid("a file was emptied", "reader 2", "admin 3")
	rewrite(t, admin, "admin 3\nadmin 4\n")
	valid("a file got a second line", "reader 2", "admin 3")
	if err := os.Remove(admin); err != nil {
		t.Fatal(err)
	}
	valid("a file was deleted", "reader 2", "admin 3")
	valid("it was missed again", "reader 2", "admin 3")
	if err := os.Mkdir(admin, 0o700); err != nil {
		t.Fatal(err)
	}
	valid("a directory took its place", "reader 2", "admin 3")
	if err := os.Remove(admin); err != nil {
		t.Fatal(err)
	}
	replace(t, admin, "admin 4")
	valid("it came back", "reader 2", "admin 4")
	w.Stop()
	log := w.Log()
	for text, want := range map[string]int{"a changed file is in use": 4, "admin-token-file: " + admin + " is empty": 1,
		"has several lines": 1,
		"no such file":      1, "not a regular file": 1} {
		if n := strings.Count(log, text); n != want {
			t.Errorf("the log says %q %d times, want %d:\n%s", text, n, want, log)
		}
	}
}

// TestCertificatesAreRenewed changes the files of the certificates while the agent runs.
func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	first, second := network.NewAuthority(t), network.NewAuthority(t)
	cert, key := first.Pair(t)
	c := config.TLS{CertFile: agenttest.SecretFile(t, cert), KeyFile: agenttest.SecretFile(t, key),
		ClientCAFile: agenttest.SecretFile(t, first.PEM)}
	w := startWeb(t, "", func(s *config.Config) { s.API.TLS = c })
	answers := func(after string, server, client *network.Authority) {
		t.Helper()
		for _, trusted := range []*network.Authority{first, second} {
			for _, shown := range []*network.Authority{first, second} {
				_, err := trusting(t, trusted, w.Address(), shown).Info(t.Context())
				if want := trusted == server && shown == client; (err == nil) != want {
					t.Errorf("after %s: trusting the first %t, showing the first %t: error %v", after,
						trusted == first, shown == first, err)
				}
			}
		}
	}
	answers("the start", first, first)
	const metric = "conduit_api_certificate_expiry_timestamp_seconds"
	expires := func(cert string) {
		t.Helper()
		block, _ := pem.Decode([]byte(cert))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := agenttest.Scrape(t, w.Agent, metric); got != float64(leaf.NotAfter.Unix()) {
			t.Errorf("%s is %v, want %v", metric, got, leaf.NotAfter.Unix())
		}
	}
	expires(cert)
	cert, key = second.PairWith(t, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Minute) })
	replace(t, c.CertFile, cert)
	answers("only the certificate was replaced", first, first)
	replace(t, c.KeyFile, key)
	answers("its key was replaced", second, first)
	expires(cert)
	rewrite(t, c.ClientCAFile, second.PEM)
	answers("the authority of clients was replaced", second, second)
	rewrite(t, c.ClientCAFile, "no certificate")
	answers("it was replaced by another text", second, second)
	rewrite(t, c.ClientCAFile, second.PEM)
	for _, wrong := range []func(*x509.Certificate){
		func(c *x509.Certificate) { c.NotBefore, c.NotAfter = c.NotBefore.Add(-time.Hour), c.NotBefore },
		func(c *x509.Certificate) { c.NotBefore, c.NotAfter = c.NotAfter, c.NotAfter.Add(time.Hour) },
	} {
		cert, key = second.PairWith(t, wrong)
		replace(t, c.KeyFile, key)
		replace(t, c.CertFile, cert)
		answers("one that is out of date", second, second)
	}
	cert, key = second.PairWith(t, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"edge.example"}, nil })
	replace(t, c.KeyFile, key)
	replace(t, c.CertFile, cert)
	if _, err := trusting(t, second, w.Address(), second).Info(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a certificate for another host: error %v", err)
	}
	w.Stop()
	for _, want := range []string{"api.tls.cert-file expired at ", "is not valid before ",
		`"hosts":"127.0.0.1","valid_for":"edge.example"`} {
		if log := w.Log(); !strings.Contains(log, want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
	if log := w.Log(); !strings.Contains(log, "api.tls.cert-file with api.tls.key-file") ||
		!strings.Contains(log, "there is no PEM certificate in "+c.ClientCAFile) {
		t.Errorf("the log does not say what cannot be used:\n%s", log)
	}
}
