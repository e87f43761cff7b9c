package e2e_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// trusting returns a client that trusts the authority a and presents a certificate from by, unless by is nil.
func trusting(t *testing.T, a *network.Authority, address string, by *network.Authority) *client.Client {
	t.Helper()
	c := &tls.Config{RootCAs: a.Pool()}
	if by != nil {
		pair, err := tls.X509KeyPair(pemPair(by.Pair(t)))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &client.Client{URL: "https://" + address, HTTP: &http.Client{Transport: transport}}
}

func pemPair(cert, key string) (a, b []byte) { return []byte(cert), []byte(key) }

var errSeen = errors.New("seen")

// seesRecord returns errSeen when an inspector sees a few records.
func seesRecord(t *testing.T, at *client.Client) error {
	n := 0
	return at.Inspect(t.Context(), "p:src", nil, func(client.Message) error {
		if n++; n < 30 { // until the certificate is verified
			return nil
		}
		return errSeen
	})
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	trusted, strange := network.NewAuthority(t), network.NewAuthority(t)
	cert, key := trusted.Pair(t)
	encrypted := config.TLS{CertFile: agenttest.SecretFile(t, cert), KeyFile: agenttest.SecretFile(t, key)}
	mutual := encrypted
	mutual.ClientCAFile = agenttest.SecretFile(t, trusted.PEM)
	for name, c := range map[string]struct {
		tls                    config.TLS
		none, stranger, friend bool // which clients get an answer
	}{
		"TLS":        {encrypted, true, true, true},
		"mutual TLS": {mutual, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWeb(t, "", func(s *config.Config) { s.API.TLS = c.tls })
			w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 100, ""))
			w.WaitPhase("p", spec.PhaseRunning, 1)
			if _, err := w.API.Info(t.Context()); err == nil {
				t.Error("answered without encryption")
			}
			for _, one := range []struct {
				who  string
				by   *network.Authority
				want bool
			}{{"no certificate", nil, c.none}, {"a stranger", strange, c.stranger}, {"a friend", trusted, c.friend}} {
				at := trusting(t, trusted, w.Address(), one.by)
				if _, err := at.Info(t.Context()); (err == nil) != one.want {
					t.Errorf("%s: error %v", one.who, err)
				}
				if err := seesRecord(t, at); one.want && err != errSeen {
					t.Errorf("%s, inspecting: error %v", one.who, err)
				}
				if _, _, err := at.CreatePipeline(t.Context(), "", rest.PipelineConfig{Name: one.who}); (err == nil) !=
					one.want {
					t.Errorf("%s, changing: error %v", one.who, err)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		tls  config.TLS
		want string
	}{
		"no key":         {config.TLS{CertFile: encrypted.CertFile}, "api.tls.key-file"},
		"no certificate": {config.TLS{ClientCAFile: mutual.ClientCAFile}, "api.tls.cert-file"},
		"no PEM": {
			config.TLS{CertFile: encrypted.CertFile, KeyFile: encrypted.KeyFile,
				ClientCAFile: agenttest.SecretFile(t, "x")},
			"no PEM certificate"},
		"no file": {config.TLS{CertFile: "/nowhere", KeyFile: "/nowhere"}, "api.tls.cert-file"},
	} {
		cfg := settings(t, "127.0.0.1:0")
		cfg.API.TLS = c.tls
		if err := agent.Run(t.Context(), quiet(cfg)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
