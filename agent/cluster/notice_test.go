package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// TestEveryNoticeHasAText checks that events and log lines describe every notice.
func TestEveryNoticeHasAText(t *testing.T) {
	for _, reason := range []protocol.Reason{protocol.Joined, protocol.SessionLost, protocol.NameTaken,
		protocol.Claimed, protocol.TookOver,
		protocol.Released, protocol.Fenced, protocol.RolledBack, protocol.Differs, protocol.NewerFormat,
		protocol.SelfStopped,
		protocol.Disconnected, protocol.Reconnected, protocol.Unplaced,
		protocol.Waiting, protocol.Withdrawn, protocol.Retiring,
		protocol.Deleted, protocol.Outdated} {
		if text := cluster.NoticeText(protocol.Notice{Reason: reason, Other: "b"}); len(strings.Fields(text)) < 5 {
			t.Errorf("%s: %q", reason, text)
		}
	}
}

// TestLogOfAMember checks the log of a member that joins, runs a pipeline and finds no place for another one.
func TestLogOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		m := &cluster.Member{
			Store: &memory{}, Self: protocol.Session{Agent: "a"}, Timing: protocol.TimingOf(20 * time.Second),
			Log: slog.New(slog.NewJSONHandler(&log, nil)), Lost: func(string) {}, Placed: func(string) {},
			Adopt: func(context.Context, string, []byte) error { return nil },
			Idle:  func(context.Context, string) bool { return true },
		}
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		m.Declare(ctx, protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d"},
			"q": {Digest: "d", Labels: map[string]string{"site": "berlin"}}}})
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for line := range strings.Lines(log.String()) {
			var entry struct{ Level, Msg, Reason string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatal(err)
			}
			got[entry.Reason] = entry.Level + " " + entry.Msg
		}
		for reason, want := range map[protocol.Reason]string{
			protocol.Joined:  "INFO this agent is a member of the cluster",
			protocol.Claimed: "INFO this member runs the pipeline",
			protocol.Unplaced: "WARN no member of the cluster that takes pipelines has the labels " +
				"that the pipeline requires",
		} {
			if got[string(reason)] != want {
				t.Errorf("%s: logged %q, want %q:\n%s", reason, got[string(reason)], want, log.String())
			}
		}
	})
}
