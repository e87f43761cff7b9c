package http_test

import (
	"crypto/tls"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// TestTLS sends from the destination to the source; each verifies the certificate of the other.
func TestTLS(t *testing.T) {
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, pair := network.Certificate(t)
	s, addr := listening(t, map[string]string{"tls.cert": serverCert, "tls.key": serverKey, "tls.ca": clientCert})
	d := destination(t, map[string]string{"url": "https://" + addr + "/", "tls.ca": serverCert, "tls.cert": clientCert,
		"tls.key": clientKey})
	written := make(chan error, 1)
	go func() { _, err := d.Write(t.Context(), records("one")); written <- err }()
	ack(t, s, plugintest.Read(t, s, 1))
	if err := <-written; err != nil {
		t.Error(err)
	}
	for name, settings := range map[string]map[string]string{
		"no client certificate":     {"tls.ca": serverCert},
		"certificate of a server":   {"tls.ca": serverCert, "tls.cert": serverCert, "tls.key": serverKey},
		"authority that is unknown": {"tls.ca": clientCert, "tls.cert": clientCert, "tls.key": clientKey},
	} {
		settings["url"], settings["retry.timeout"] = "https://"+addr+"/", "0s"
		n, err := destination(t, settings).Write(t.Context(), records("no"))
		if n != 0 || err == nil || !builtintest.Lost(err) {
			t.Errorf("%s: wrote %d: %v", name, n, err)
		}
	}
	old := &nethttp.Client{Transport: &nethttp.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS10,
		MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	r := request(t, addr, "old")
	r.URL.Scheme = "https"
	if a := send(old, r); a.err == nil || !strings.Contains(a.err.Error(), "protocol version") {
		t.Errorf("TLS 1.1 is answered %d %v", a.status, a.err)
	}
}
