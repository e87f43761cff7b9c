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
	protocol.SessionLost: "its session ended, and other members may have taken over its pipelines",
	protocol.NameTaken: "member name %s is in use by another session; if another agent uses it, set cluster.member " +
		"to a unique name",
	protocol.Claimed:  "this member runs the pipeline",
	protocol.TookOver: "this member took over the pipeline from the member %s, which is gone",
	protocol.Released: "this member handed over the pipeline",
	protocol.Fenced:   "another member holds the claim of the pipeline, so this one stopped it",
	protocol.RolledBack: "the store of the cluster has older data than it acknowledged, so this member does not " +
		"overwrite it; see the page on clusters",
	protocol.Differs: "the member %s ran another version of the declaration, so this member does not claim the " +
		"pipeline for a while",
	protocol.NewerFormat: "a newer version of conduit on the member %s wrote the claim, so this member does not " +
		"change it",
	protocol.SelfStopped: "the store of the cluster was unreachable for too long, so this member stopped its strict " +
		"pipelines",
	protocol.Disconnected: "the store of the cluster is unreachable, and the relaxed pipeline continues without " +
		"acknowledging",
	protocol.Reconnected: "the store of the cluster is reachable again, and this member still holds the claim of the " +
		"pipeline",
	protocol.Retiring: "this member cleans up after the connectors of the pipeline, because no member has its file",
	protocol.Withdrawn: "this member no longer has the file of the pipeline; claim and positions are kept for " +
		"cluster.keep-deleted, or as long as another member has the file",
	protocol.Deleted: "no member had the file of the pipeline for cluster.keep-deleted: its claim and positions are " +
		"deleted",
	protocol.Outdated: "the pipeline was deleted from the cluster, so this member ignores its old file: remove it, " +
		"and add it again to start the pipeline anew",
	protocol.Waiting: "every member of the cluster that may run the pipeline already runs an instance, so this " +
		"instance waits for another member",
	protocol.Unplaced: "no member of the cluster that takes pipelines has the labels that the pipeline requires",
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
