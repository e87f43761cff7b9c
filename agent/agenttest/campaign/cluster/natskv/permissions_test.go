package natskv_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// needed are the subjects that an agent of a cluster named least publishes to.
var needed = []string{
	"$KV.conduit-least.>", "$JS.API.STREAM.INFO.KV_conduit-least", "$JS.API.STREAM.MSG.GET.KV_conduit-least",
	"$JS.API.CONSUMER.CREATE.KV_conduit-least.>",
	"$JS.API.CONSUMER.MSG.NEXT.KV_conduit-least.>", "$JS.API.CONSUMER.DELETE.KV_conduit-least.>",
}

// user is a line in a list of users, with the subjects that the user may publish to.
func user(name string, publish []string, subscribe string) string {
	return fmt.Sprintf("{user: %s, password: x, permissions: {publish: [%s], subscribe: %q}}", name,
		`"`+strings.Join(publish, `", "`)+`"`, subscribe)
}

// TestLeastPermissions runs the conformance tests as a user with exactly the permissions on the page, and checks that
// each permission is necessary.
func TestLeastPermissions(t *testing.T) {
	load.Parallel(t, load.Server)
	const inbox = "_INBOX_conduit-least.>"
	users := []string{"{user: admin, password: x}", user("agent", needed, inbox), user("deaf", needed, "_INBOX.>")}
	for i := range needed {
		users = append(users, user(fmt.Sprint("lacks", i), slices.Delete(slices.Clone(needed), i, i+1), inbox))
	}
	s := server.StartNATS(t, 1, "authorization: {users: ["+strings.Join(users, ", ")+"]}")[0]
	options := func(user string) natskv.Options {
		return natskv.Options{URL: "nats://" + user + ":x@" + s.Addr, Cluster: "least", Replicas: 1,
			Log: slog.New(slog.DiscardHandler)}
	}
	open(t, options("admin")) // creates the stream
	t.Run("conformance", func(t *testing.T) {
		clustertest.Run(t, func(t *testing.T) cluster.Store { return open(t, options("agent")) })
	})
	if err := use(t, options("agent"), "all", time.Minute); err != nil {
		t.Error(err)
	}
	if use(t, options("deaf"), "deaf", 3*time.Second) == nil {
		t.Error("an agent can do without its inbox")
	}
	var trying sync.WaitGroup
	for i, subject := range needed {
		if strings.Contains(subject, "CONSUMER.DELETE") {
			continue // the server deletes a consumer by itself, later
		}
		trying.Go(func() {
			if use(t, options(fmt.Sprint("lacks", i)), fmt.Sprint("lacks", i), 3*time.Second) == nil {
				t.Errorf("%s is not needed", subject)
			}
		})
	}
	trying.Wait()
}

// use writes, reads and watches. A denied operation ends with a timeout.
func use(t *testing.T, o natskv.Options, key string, timeout time.Duration) error {
	t.Helper()
	s, err := natskv.Open(o)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := s.Ready(ctx, o); err != nil {
		return err
	}
	if o := s.Write(ctx, protocol.Write{Entry: protocol.Entry{Key: "p." + key, Value: []byte("{}")}}); o.Result !=
		protocol.Applied {
		return fmt.Errorf("cannot write: %v", o)
	}
	if _, err := s.Read(ctx, "p."+key); err != nil {
		return err
	}
	synced := false
	err = s.Watch(ctx, func(protocol.Entry) {}, func() { synced = true; cancel() })
	if synced {
		return nil
	}
	return err
}
