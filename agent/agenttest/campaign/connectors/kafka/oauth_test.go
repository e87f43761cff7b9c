package kafka_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// gate is a proxy that authenticates clients by OAUTHBEARER, which kfake does not support. It requires each client to
// authenticate again within the lifetime of a session.
type gate struct {
	t        *testing.T
	broker   string
	listener net.Listener

	mu     sync.Mutex
	tokens map[net.Conn][]string // guarded by mu: in the order of use
}

const sessionLifetime = 2500 * time.Millisecond // clients authenticate a second before its end

func newGate(t *testing.T, broker string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, broker: broker, listener: l, tokens: map[net.Conn][]string{}}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.serve(client) })
		}
	})
	return g
}

// serve forwards requests of the client to the broker, except for authentication.
func (g *gate) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	broker, err := net.Dial("tcp", g.broker)
	if err != nil {
		return
	}
	defer func() { _ = broker.Close() }()
	go func() { _, _ = io.Copy(client, broker); _ = client.Close() }()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(client, size); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(client, request); err != nil {
			return
		}
		to, message := broker, append(size, request...)
		if answer := g.answer(client, request); answer != nil {
			to, message = client, append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

// answer returns the answer to an authentication request, nil for other requests.
func (g *gate) answer(client net.Conn, request []byte) []byte {
	version, answer := int16(binary.BigEndian.Uint16(request[2:])), bytes.Clone(request[4:8])
	switch int16(binary.BigEndian.Uint16(request)) {
	case kmsg.SASLHandshake.Int16():
		r := kmsg.NewSASLHandshakeResponse()
		r.Version, r.SupportedMechanisms = version, []string{"OAUTHBEARER"}
		return r.AppendTo(answer)
	case kmsg.SASLAuthenticate.Int16():
		_, token, _ := bytes.Cut(request, []byte("auth=Bearer "))
		token, _, _ = bytes.Cut(token, []byte{1})
		g.mu.Lock()
		g.tokens[client] = append(g.tokens[client], string(token))
		g.mu.Unlock()
		r := kmsg.NewSASLAuthenticateResponse()
		r.Version, r.SessionLifetimeMillis = version, sessionLifetime.Milliseconds()
		if r.IsFlexible() {
			answer = append(answer, 0) // no tags
		}
		return r.AppendTo(answer)
	}
	return nil
}

// again reports whether a connection has authenticated more than once, and fails the test if it used a token twice.
func (g *gate) again() (again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shown := map[string]bool{}
	for _, tokens := range g.tokens {
		for _, token := range tokens {
			if shown[token] || token == "" {
				g.t.Errorf("token %q comes again after it has expired: %q", token, g.tokens)
			}
			shown[token] = true
		}
		again = again || len(tokens) > 1
	}
	return again
}

// TestTokenOfEachSession provides a valid token for each connection, and for each further session that a broker
// requires on it, while records flow.
func TestTokenOfEachSession(t *testing.T) {
	load.Parallel(t, load.Server)
	var issued atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":5}`, issued.Add(1))
	}))
	defer issuer.Close()
	k := server.StartKafka(t, server.KafkaOptions{})
	g := newGate(t, k.Addr)
	k.Advertise(t, g.listener.Addr().String())
	w := in(t, g.listener.Addr().String(), 1)
	s := w.open(w.settings("saslMechanism", "OAUTHBEARER", "saslTokenURL", issuer.URL, "saslUsername", "me",
		"saslPassword", "secret"), nil)
	n := 0
	wait.For(t, "a connection authenticates again", func() bool {
		n++
		w.produce(0, fmt.Sprint(n))
		s.want(fmt.Sprint(n))
		return g.again()
	})
}
