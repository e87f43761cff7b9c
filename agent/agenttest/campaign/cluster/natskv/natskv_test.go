// Package natskv_test tests the store of a cluster in NATS, against real servers.
package natskv_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func urls(servers []*server.NATS) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.URL()
	}
	return strings.Join(all, ",")
}

func open(t *testing.T, o natskv.Options) *natskv.Store {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	s, err := natskv.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	deadline := time.Now().Add(wait.Limit)
	for attempt := 500 * time.Millisecond; ; attempt *= 2 { // a cluster without a leader does not answer
		ctx, cancel := context.WithTimeout(t.Context(), attempt)
		err := s.Ready(ctx, o)
		cancel()
		if err == nil {
			return s
		}
		if unfit := new(natskv.UnfitError); errors.As(err, &unfit) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestConformance runs the conformance tests of all stores, on one server and on three.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, count*load.Server)
			servers := server.StartNATS(t, count)
			clustertest.Run(t, func(t *testing.T) cluster.Store {
				return open(t, natskv.Options{URL: urls(servers), Cluster: "test", Replicas: count})
			})
		})
	}
}

// jetStream connects to a server directly, without a store.
func jetStream(t *testing.T, s *server.NATS) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// TestUnfitStreams checks that a stream with unsafe settings for claims is refused.
func TestUnfitStreams(t *testing.T) {
	load.Parallel(t, load.Server)
	servers := server.StartNATS(t, 1)
	js := jetStream(t, servers[0])
	for name, c := range map[string]struct {
		bucket jetstream.KeyValueConfig
		wants  string
	}{
		"markers": {jetstream.KeyValueConfig{Bucket: "conduit-markers", LimitMarkerTTL: time.Minute},
			"must leave no markers"},
		"history": {jetstream.KeyValueConfig{Bucket: "conduit-history", History: 5},
			"one message for each subject"},
		"no expiry":   {jetstream.KeyValueConfig{Bucket: "conduit-none"}, "allow_msg_ttl"},
		"direct gets": {jetstream.KeyValueConfig{Bucket: "conduit-direct"}, "allow_direct"},
		"memory": {jetstream.KeyValueConfig{Bucket: "conduit-memory", Storage: jetstream.MemoryStorage},
			"stored in files"},
		"max age": {jetstream.KeyValueConfig{Bucket: "conduit-age", TTL: time.Hour}, "keep claims forever"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := js.CreateKeyValue(t.Context(), c.bucket); err != nil {
				t.Fatal(err)
			}
			o := natskv.Options{URL: servers[0].URL(), Cluster: strings.TrimPrefix(c.bucket.Bucket, "conduit-"),
				Replicas: 1, Log: slog.New(slog.DiscardHandler)}
			s, err := natskv.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = s.Ready(t.Context(), o)
			if unfit := new(natskv.UnfitError); !errors.As(err, &unfit) || !strings.Contains(err.Error(), c.wants) {
				t.Errorf("the stream is accepted, or refused without %q: %v", c.wants, err)
			}
		})
	}
}

// TestSmallMessages has a server whose message limit is below the size of dead letters: a member does not join.
func TestSmallMessages(t *testing.T) {
	load.Parallel(t, load.Server)
	o := natskv.Options{URL: server.StartNATS(t, 1, "max_payload: 512KB")[0].URL(), Cluster: "c", Replicas: 1,
		Log: slog.New(slog.DiscardHandler)}
	s, err := natskv.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var last string
	wait.For(t, "the server to be refused", func() bool {
		err := s.Ready(t.Context(), o)
		last = fmt.Sprint(err)
		return errors.As(err, new(*natskv.UnfitError)) &&
			strings.Contains(last, "up to 524288 bytes (max_payload), and 1000000 are needed")
	}, func() string { return last })
}

// TestServersThatCannotKeepTheStream asks servers for a stream that they are not configured for: the error names the
// remedy.
func TestServersThatCannotKeepTheStream(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	for name, c := range map[string]struct {
		servers, replicas int
		lines             []string
		wants             string
	}{
		"one server": {1, 3, nil,
			"cluster.nats.replicas is 3; set cluster.nats.replicas to 1, or connect to a cluster of 3 servers"},
		"two servers":  {2, 3, nil, "cluster.nats.replicas is 3; start as many servers with JetStream, or set fewer"},
		"no JetStream": {1, 1, []string{"jetstream: disabled"}, "start the server with --jetstream"},
	} {
		t.Run(name, func(t *testing.T) {
			o := natskv.Options{URL: urls(server.StartNATS(t, c.servers, c.lines...)), Cluster: "c",
				Replicas: c.replicas,
				Log:      slog.New(slog.DiscardHandler)}
			s, err := natskv.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var last string
			wait.For(t, "the remedy to be named", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				last = fmt.Sprint(s.Ready(ctx, o))
				return strings.Contains(last, c.wants)
			}, func() string { return last })
		})
	}
}

// TestUnfitChanges takes the default stream, and changes one setting.
func TestUnfitChanges(t *testing.T) {
	load.Parallel(t, load.Server)
	servers := server.StartNATS(t, 1)
	js := jetStream(t, servers[0])
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(c *jetstream.StreamConfig)
		wants  string
	}{
		"discard": {func(c *jetstream.StreamConfig) {
			c.Discard = jetstream.DiscardOld
		}, "must refuse new messages when it is full"},
		"retention": {func(c *jetstream.StreamConfig) {
			c.Retention = jetstream.WorkQueuePolicy
		}, "must keep messages that were read"},
		"mirror": {func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects, c.FirstSeq = &jetstream.StreamSource{Name: "other"}, nil, 0
		}, "must not be a mirror"},
		"size": {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 500_000 }, "must take messages of 1000000 bytes"},
		"sources": {func(c *jetstream.StreamConfig) {
			c.Sources = []*jetstream.StreamSource{{Name: "other"}}
		}, "must not be a mirror"},
	} {
		t.Run(name, func(t *testing.T) {
			o := natskv.Options{URL: servers[0].URL(), Cluster: name, Replicas: 1}
			s := open(t, o)
			stream, err := js.Stream(t.Context(), "KV_conduit-"+name)
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			c.change(&config)
			if err := js.DeleteStream(t.Context(), config.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			err = s.Ready(t.Context(), o)
			if unfit := new(natskv.UnfitError); !errors.As(err, &unfit) || len(unfit.Wrong) != 1 ||
				!strings.Contains(err.Error(), c.wants) {
				t.Errorf("the stream is accepted, or refused for more than %q: %v", c.wants, err)
			}
		})
	}
}

// TestOldServer connects to a server that reports an older version, before and after the stream exists.
func TestOldServer(t *testing.T) {
	load.Parallel(t, load.Server)
	servers := server.StartNATS(t, 1)
	o := natskv.Options{URL: "nats://" + aged(t, servers[0].Addr), Cluster: "test", Replicas: 1,
		Log: slog.New(slog.DiscardHandler)}
	s, err := natskv.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	refused := func() {
		t.Helper()
		err := s.Ready(t.Context(), o)
		if unfit := new(natskv.UnfitError); !errors.As(err, &unfit) ||
			!strings.Contains(err.Error(), "the server has version 2.11.9, but 2.12 or later is required") {
			t.Errorf("the server is accepted, or refused for something else: %v", err)
		}
	}
	refused()
	open(t, natskv.Options{URL: servers[0].URL(), Cluster: "test", Replicas: 1})
	refused()
}

// aged returns the address of a relay to a server. The server's answers report version 2.11.9.
func aged(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	version := regexp.MustCompile(`"version":"[^"]*"`)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() {
				defer func() { _ = client.Close() }()
				for from := bufio.NewReader(server); ; {
					line, err := from.ReadBytes('\n')
					if err != nil {
						return
					}
					if bytes.HasPrefix(line, []byte("INFO ")) {
						line = version.ReplaceAll(line, []byte(`"version":"2.11.9"`))
					}
					if _, err := client.Write(line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
