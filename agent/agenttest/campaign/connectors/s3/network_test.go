package s3_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// hosts is the proxy in the environment. It receives requests for other hosts: names in the domain of the gateway,
// which it resolves to 127.0.0.1.
var hosts proxy

type proxy struct {
	mu  sync.Mutex
	all []string // guarded by mu: requested hosts
}

// ServeHTTP passes the request on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.all = append(p.all, r.Host)
	p.mu.Unlock()
	_, port, _ := net.SplitHostPort(r.Host)
	forward("127.0.0.1:"+port).ServeHTTP(w, r)
}

// asked reports whether the proxy received a request for a host.
func (p *proxy) asked(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.all, host)
}

// forward returns a proxy that forwards requests to a server unchanged, because they are signed.
func forward(addr string) http.Handler {
	return &httputil.ReverseProxy{Transport: &http.Transport{}, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", addr, r.In.Host
	}}
}

// reaches reads and writes with settings for the address of the store.
func reaches(t *testing.T, s *server.S3, more ...string) {
	t.Helper()
	s.Must(t, "PUT", "/bkt/a", "", "1")
	if got := text(source(t, quick("", more...), nil).read(t, 1)); !strings.HasSuffix(got, ":a=1") {
		t.Errorf("got %s", got)
	}
	write(t, destination(t, settings("", append(more, "format", "json", "prefix", "out/")...)), made("1", "x"))
	if files := s.Files(t, "bkt"); len(files) != 2 {
		t.Errorf("there are %d objects", len(files))
	}
}

// TestHosts uses the bucket in the host name, or in the path if the settings say so.
func TestHosts(t *testing.T) {
	load.Parallel(t, load.Server)
	for pathStyle, prefix := range map[string]string{"false": "bkt.", "true": ""} {
		s := store(t)
		_, port, _ := net.SplitHostPort(s.Addr)
		host := net.JoinHostPort(server.S3Domain, port)
		reaches(t, s, "aws.endpoint", "http://"+host, "aws.pathStyle", pathStyle)
		if !hosts.asked(prefix + host) {
			t.Errorf("aws.pathStyle %s: %s was not asked", pathStyle, prefix+host)
		}
		if pathStyle == "true" && hosts.asked("bkt."+host) {
			t.Error("the bucket is in the host name")
		}
	}
}

// TestClientCertificate reaches a store that requires a certificate, and fails without one.
func TestClientCertificate(t *testing.T) {
	load.Parallel(t, load.Server)
	authority := network.NewAuthority(t)
	cert, key := authority.Pair(t)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	s := store(t)
	front := httptest.NewUnstartedServer(forward(s.Addr))
	front.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	defer front.Close()
	more := []string{"aws.endpoint", front.URL, "tls.ca", authority.PEM}
	src := &s3.Source{}
	err = errors.Join(src.Configure(t.Context(), quick("", more...)), src.Open(t.Context(), nil))
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a certificate: %v", err)
	}
	reaches(t, s, append(more, "tls.cert", cert, "tls.key", key)...)
}
