package natskv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestStreamMadeAgain deletes the stream while an agent uses it, and another agent creates it again: revisions continue
// to grow, so that no old claim passes for a later one, and the first agent neither reads nor writes the new stream.
func TestStreamMadeAgain(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			load.Parallel(t, replicas*load.Server)
			o := natskv.Options{URL: urls(server.StartNATS(t, replicas)), Cluster: "test", Replicas: replicas}
			old := open(t, o)
			claim := protocol.Entry{Key: protocol.ClaimKey("p"), Value: []byte("v")}
			for range 20 {
				claim.Revision = applied(t, old, claim)
			}
			watched := make(chan error)
			go func() { watched <- watchUntilMadeAgain(t.Context(), old) }()
			deleteStream(t, o)
			again := open(t, o)
			first := claim
			first.Revision = 0
			if r := applied(t, again, first); r <= claim.Revision {
				t.Errorf("the claim had revision %d, and has %d in the stream that was made again", claim.Revision, r)
			}
			if o := old.Write(t.Context(), protocol.Write{Entry: claim}); o.Result == protocol.Applied {
				t.Error("a write of the agent that joined the stream before is applied")
			}
			if err := <-watched; err != nil {
				t.Errorf("the watch goes on: %v", err)
			}
			if _, err := old.Read(t.Context(), claim.Key); err == nil || !strings.Contains(err.Error(), "was recreated") {
				t.Errorf("the agent that joined the stream before reads, or fails with %v", err)
			}
			if o := old.Write(t.Context(),
				protocol.Write{Entry: protocol.Entry{Key: "s.S", Value: []byte("v")}}); o.Result != protocol.Unknown {
				t.Errorf("a session of the agent that joined the stream before is made: %+v", o)
			}
		})
	}
}

// watchUntilMadeAgain watches as a member does, restarting after any error, until the stream is a new one.
func watchUntilMadeAgain(ctx context.Context, s *natskv.Store) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := s.Watch(ctx, func(protocol.Entry) {}, func() {})
		switch {
		case err != nil && strings.Contains(err.Error(), "was recreated"):
			return nil
		case ctx.Err() != nil:
			return err
		}
	}
}

// applied writes an entry, and returns its revision.
func applied(t *testing.T, s *natskv.Store, e protocol.Entry) (revision uint64) {
	t.Helper()
	wait.For(t, "a write to be applied", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		o := s.Write(ctx, protocol.Write{Entry: e})
		revision = o.Revision
		return o.Result == protocol.Applied
	})
	return revision
}

// deleteStream deletes the stream of a cluster.
func deleteStream(t *testing.T, o natskv.Options) {
	t.Helper()
	conn, err := nats.Connect(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		err = js.DeleteStream(t.Context(), "KV_conduit-"+o.Cluster)
	}
	if err != nil {
		t.Fatal(err)
	}
}
