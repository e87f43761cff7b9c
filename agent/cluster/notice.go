package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// NoticeText describes a notice in words.
func NoticeText(n protocol.Notice) string {
	return strings.ReplaceAll(texts[n.Reason], "%s", cmp.Or(n.Other, "that had it"))
}

// texts maps reasons to texts. A text about another member is a verb that follows the member's name.
var texts = map[protocol.Reason]string{
	protocol.Joined:      "this agent is a member of the cluster",
	protocol.SessionLost: "its session ended, and other members may have its pipelines",
	protocol.NameTaken: "another session has the name %s; if that is not its own of before, cluster.member " +
		"must differ",
	protocol.Claimed:  "this member runs the pipeline",
	protocol.TookOver: "this member runs the pipeline, which the member %s had that is gone",
	protocol.Released: "this member gave the pipeline to others",
	protocol.Fenced:   "another member has the claim of the pipeline, so this one stopped it",
	protocol.RolledBack: "the store of the cluster has older data than it acknowledged, so nothing is written over " +
		"it; see the page on clusters",
	protocol.Differs: "the member %s ran another version of the declaration, and this member leaves the " +
		"pipeline alone for a while",
	protocol.NewerFormat: "a newer version of conduit on the member %s wrote the claim, and this one leaves it alone",
	protocol.SelfStopped: "the cluster's store was out of reach for too long, so this member stopped its strict " +
		"pipelines",
	protocol.Disconnected: "the cluster's store is out of reach, and the pipeline, which is relaxed, goes on without " +
		"acknowledging",
	protocol.Reconnected: "the cluster's store answers again, and the pipeline still is this member's",
	protocol.Retiring:    "this member cleans up after the connectors of the pipeline, which no member has a file of",
	protocol.Withdrawn: "this member has no file of the pipeline any more; claim and positions are kept for " +
		"cluster.keep-deleted, or as long as another member has one",
	protocol.Deleted: "no member had a file of the pipeline for cluster.keep-deleted: its claim and positions " +
		"are deleted",
	protocol.Outdated: "the pipeline was deleted from the cluster, and this member's file is taken for an old " +
		"one: remove it, and add it again if the pipeline is to begin anew",
	protocol.Waiting: "every member of the cluster that may run the pipeline has an instance of it, so this one " +
		"waits for a further member",
	protocol.Unplaced: "no member of the cluster that takes pipelines has the labels that the pipeline asks for",
}

// warns reports whether people should see the notice.
func warns(n protocol.Notice) bool { return warned[n.Reason] }

// warned holds the reasons of notices that people should see.
var warned = map[protocol.Reason]bool{
	protocol.SessionLost: true, protocol.NameTaken: true, protocol.TookOver: true, protocol.Fenced: true,
	protocol.RolledBack:  true,
	protocol.NewerFormat: true, protocol.SelfStopped: true, protocol.Disconnected: true, protocol.Unplaced: true,
	protocol.Outdated: true,
}

// NoticeLog saves notices as events, in batches. Set the exported fields, then call Run.
type NoticeLog struct {
	Apply func(ctx context.Context, c *spec.Changes) error
	Log   *slog.Logger

	once    sync.Once
	mu      sync.Mutex
	waiting []spec.Event // guarded by mu
	wake    notify.Signal
}

func (l *NoticeLog) init() { l.once.Do(func() { l.wake = notify.NewSignal() }) }

// Add queues a notice to be saved soon. It does not block.
func (l *NoticeLog) Add(n protocol.Notice) {
	l.init()
	pipeline, number := protocol.InstanceOf(n.Pipeline)
	e := spec.Event{At: time.Now(), Pipeline: pipeline, Type: spec.EventNormal, Reason: string(n.Reason),
		Message: NoticeText(n)}
	if number > 1 {
		e.Message = fmt.Sprintf("instance %d: %s", number, e.Message)
	}
	if warns(n) {
		e.Type = "warning"
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, e)
	l.mu.Unlock()
	l.wake.Notify()
}

// Run saves events until ctx ends.
func (l *NoticeLog) Run(ctx context.Context) {
	l.init()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		events := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		if err := l.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			l.Log.Warn("cannot save events of the cluster", "component", "cluster", "err", err)
		}
	}
}
