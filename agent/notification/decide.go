package notification

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// failingAfter is how long a pipeline must fail before a notification is sent: most failures end at the next attempt.
const failingAfter = time.Minute

// notDelivering is the reason of the event that a pipeline delivers nothing.
const notDelivering = "NotDelivering"

// recoveredAfter is how long a pipeline must run before it counts as recovered.
const recoveredAfter = 5 * time.Second

// decider turns events into notifications. It sends one notification per kind, subject and interval. It counts the
// others in the interval, and sends the last one at the end of the interval if it is still true.
type decider struct {
	interval time.Duration
	selected []Kind
	state    func(pipeline string) (spec.State, bool)
	backlogs func(pipeline string) map[string]spec.Backlog // nil: no destination is isolated
	run      string                                        // distinguishes the ids of this process from those of others
	serial   int
	subjects map[string]*subject
}

// subject holds the notifications about a pipeline, a file or the agent.
type subject struct {
	problem Kind               // sent or held and not over; "" for none
	failing *Notification      // sent if the failure lasts
	sent    map[Kind]*lastSent // the last notification of each kind
	latest  Kind               // last sent kind
	current Kind               // last decided kind, sent or not
}

// lastSent is when a notification of a kind was sent, with the later ones in its interval.
type lastSent struct {
	at         time.Time
	held       *Notification
	suppressed int
}

// kinds are the kinds of notifications that are sent at once, by reason of the event.
var kinds = map[string]Kind{
	"Degraded": Degraded, "UpdateFailed": UpdateFailed, notDelivering: NotDelivering, "Silent": Silent,
	"FileRejected": FileProblem, "FileAccepted": FileAccepted,
	"SourceMissing": FilesMissing, "SourceUnreadable": FilesMissing, "MassDeletionHeld": FilesMissing,
	"AllFilesDeleted": FilesMissing,
	"SourceFollowed":  FilesAvailable,
	"SessionLost":     Cluster, "SelfStopped": Cluster, "NameTaken": Cluster,
}

// event returns the notifications to send for e.
func (d *decider) event(now time.Time, e spec.Event) []Notification {
	n := Notification{At: e.At, Kind: kinds[e.Reason], Pipeline: e.Pipeline, File: e.File, Message: e.Message}
	s := d.subject(n.subject())
	switch {
	case e.Reason == "Failed":
		if n.Kind = Failing; s.failing == nil && s.problem != Failing {
			s.failing = &n
		} else if s.failing != nil {
			s.failing.Message = n.Message
		}
	case e.Reason == recordsAgain && s.problem == Silent:
		n.Kind = Recovered
		return d.decide(now, s, n)
	// there was no problem before
	case n.Kind == FilesAvailable && s.problem != FilesMissing, n.Kind == FileAccepted && s.problem == "":
	case e.Reason == isolationFull && d.backlogs != nil:
		d.subject(isolationFull + " " + e.Pipeline).failing = &n // until fullLogs sees it
	case n.Kind == "":
	default:
		return d.decide(now, s, n)
	}
	return nil
}

func (d *decider) subject(name string) *subject {
	s := d.subjects[name]
	if s == nil {
		s = &subject{sent: map[Kind]*lastSent{}}
		d.subjects[name] = s
	}
	return s
}

// decide returns n if it may be sent now, and holds it otherwise.
func (d *decider) decide(now time.Time, s *subject, n Notification) []Notification {
	s.problem, s.current = n.Kind, n.Kind
	if n.Kind == Recovered || n.Kind == FileAccepted || n.Kind == FilesAvailable {
		s.problem = ""
	} else if n.Kind != Failing {
		s.failing = nil
	}
	if !slices.Contains(d.selected, n.Kind) || n.Kind == Recovered && (s.latest == "" || s.latest == Recovered) {
		return nil
	}
	last := s.sent[n.Kind]
	if last != nil && now.Sub(last.at) < d.interval {
		if last.held != nil {
			last.suppressed++
		}
		last.held = &n
		return nil
	}
	return []Notification{d.send(now, s, n)}
}

// send records that n is sent.
func (d *decider) send(now time.Time, s *subject, n Notification) Notification {
	if last := s.sent[n.Kind]; last != nil {
		n.Suppressed = last.suppressed
	}
	s.sent[n.Kind], s.latest = &lastSent{at: now}, n.Kind
	d.serial++
	n.ID = "conduit-" + d.run + "-" + strconv.Itoa(d.serial)
	return n
}

// tick returns the notifications that are due because time passed or states changed.
func (d *decider) tick(now time.Time) (all []Notification) {
	for _, name := range slices.Sorted(maps.Keys(d.subjects)) {
		s := d.subjects[name]
		all = append(all, d.changed(now, s, name)...)
		all = append(all, d.release(now, s)...)
		if s.problem == "" && s.failing == nil && !slices.ContainsFunc(slices.Collect(maps.Values(s.sent)),
			func(l *lastSent) bool { return now.Sub(l.at) < d.interval }) {
			delete(d.subjects, name)
		}
	}
	return all
}

// changed returns the notifications that follow from the state of a pipeline with an open problem.
func (d *decider) changed(now time.Time, s *subject, name string) []Notification {
	about, id, _ := strings.Cut(name, " ")
	switch {
	case s.problem == "" && s.failing == nil:
		return nil
	case about == isolationFull:
		return d.fullLogs(now, s, id)
	case about != "pipeline":
		return nil
	}
	state, known := d.state(id)
	// After a failure a pipeline is stalled until it delivers again. Its failures count for longer.
	runs := state.Phase == spec.PhaseRunning && (state.Stall == nil || state.Stall.Silent()) &&
		now.Sub(state.Since) >= recoveredAfter
	tried := state.LastAttempt
	works := runs && (tried == nil || tried.Error == "" || tried.Generation < state.RunningGeneration)
	switch {
	case !known || state.Phase == spec.PhaseStopped: // a person stopped or deleted it
		s.problem, s.failing = "", nil
	case runs && s.failing != nil:
		s.failing = nil
	case s.failing != nil && now.Sub(s.failing.At) >= failingAfter:
		n := *s.failing
		s.failing = nil
		n.Message = fmt.Sprintf("it has failed since %s and is restarted: %s", n.At.UTC().Format(time.RFC3339),
			n.Message)
		return d.decide(now, s, n)
	case works && s.problem != "" && s.problem != Silent:
		return d.decide(now, s, Notification{At: now, Kind: Recovered, Pipeline: id,
			Message: fmt.Sprintf("it works again, at generation %d", state.RunningGeneration)})
	}
	return nil
}

// release returns the notifications whose interval is over, if they are still true.
func (d *decider) release(now time.Time, s *subject) (all []Notification) {
	for _, kind := range slices.Sorted(maps.Keys(s.sent)) {
		last := s.sent[kind]
		if last.held == nil || now.Sub(last.at) < d.interval {
			continue
		}
		if kind != s.current || kind == s.latest && s.problem == "" { // outdated, or already sent
			last.suppressed++
			last.held = nil
			continue
		}
		all = append(all, d.send(now, s, *last.held))
	}
	return all
}
