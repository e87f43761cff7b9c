package cluster_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/record"
)

// wire is what proxies saw of the writes of claims: asked for by members, and answered by servers.
type wire struct {
	begin time.Time
	mu    sync.Mutex
	asked map[string]*asked // guarded by mu: by the subject of the answer
}

// asked is a write that a member sent, and as often as the link had it come, with as many answers as the servers gave.
type asked struct {
	key      string
	member   int
	expected uint64
	claim    protocol.Claim
	state    []byte
	calls    []time.Duration
	answers  []answer
}

// answer is what a server said to a write.
type answer struct {
	at       time.Duration
	kind     string // of server.Operation, "busy" when an earlier try may be under way
	revision uint64
}

func newWire() *wire { return &wire{begin: time.Now(), asked: map[string]*asked{}} }

// of returns what the proxies of a member call.
func (w *wire) of(member int) func(ofServer bool, message []byte) {
	return func(ofServer bool, message []byte) {
		now := time.Since(w.begin)
		line, body, _ := bytes.Cut(message, []byte("\r\n"))
		fields := strings.Fields(string(line))
		switch {
		case ofServer && (fields[0] == "MSG" || fields[0] == "HMSG"):
			w.answered(now, fields[1], body)
		case !ofServer && fields[0] == "HPUB" && len(fields) == 5 && strings.HasPrefix(fields[1], "$KV.conduit-test."+protocol.ClaimPrefix):
			w.called(now, member, fields, body)
		}
	}
}

var expectedRevision = regexp.MustCompile(`(?m)^Nats-Expected-Last-Subject-Sequence: (\d+)\r$`)

// called takes a write, with the subject, that of the answer and the size of the headers in the fields.
func (w *wire) called(now time.Duration, member int, fields []string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.asked[fields[2]]; a != nil {
		a.calls = append(a.calls, now)
		return
	}
	size, _ := strconv.Atoi(fields[3])
	header := body[:size]
	a := &asked{key: strings.TrimPrefix(fields[1], "$KV.conduit-test."), member: member, calls: []time.Duration{now}}
	a.state = bytes.Clone(bytes.TrimSuffix(body[size:], []byte("\r\n")))
	if found := expectedRevision.FindSubmatch(header); found != nil {
		a.expected, _ = strconv.ParseUint(string(found[1]), 10, 64)
	}
	_, value, _ := bytes.Cut(header, []byte("\nConduit-Value: "))
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	if json.Unmarshal(value, &a.claim) == nil {
		w.asked[fields[2]] = a
	}
}

var presentRevision = regexp.MustCompile(`wrong last sequence: (\d+)`)

func (w *wire) answered(now time.Duration, subject string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.asked[subject]
	if a == nil {
		return
	}
	var said struct {
		Seq   uint64
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		}
	}
	one := answer{at: now, kind: "unknown"}
	switch err := json.Unmarshal(body, &said); {
	case err != nil: // such as that no server takes it
	case said.Error == nil:
		one.kind, one.revision = "applied", said.Seq
	case said.Error.Code == 10071:
		one.kind = "conflict"
		if found := presentRevision.FindStringSubmatch(said.Error.Description); found != nil {
			one.revision, _ = strconv.ParseUint(found[1], 10, 64)
		}
	case said.Error.Code == 10164:
		one.kind = "busy"
	}
	if slices.ContainsFunc(a.answers, func(o answer) bool { return o.kind == "applied" && o.revision == one.revision }) {
		return // two servers lead for a moment, and both answer
	}
	a.answers = append(a.answers, one)
}

// history returns what was asked and answered, for a register. The copy of a write that has an answer is not known, so
// each may have come as early as the first.
func (w *wire) history() (*server.History, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, n := &server.History{}, 0
	inOrder := slices.SortedFunc(maps.Values(w.asked), func(a, b *asked) int { return cmp.Compare(a.calls[0], b.calls[0]) }) // of the tries of a write the first counts
	for _, a := range inOrder {
		o := server.Operation{Key: a.key, Client: a.member, Call: int64(a.calls[0]), Expected: a.expected, Stamp: fmt.Sprint(a.claim.Stamp.Session, "/", a.claim.Stamp.Write)}
		for _, one := range a.answers {
			if o.Kind, o.Revision, o.Return = one.kind, one.revision, int64(one.at); o.Kind != "busy" {
				h.Add(o)
				n++
			}
		}
		if o.Kind, o.Revision, o.Return = "unknown", 0, 0; len(a.answers) < len(a.calls) {
			h.Add(o)
			n++
		}
	}
	return h, n
}

// write is one that took effect.
type write struct {
	*asked
	revision uint64
	at       time.Duration // when it was answered; 0 when it never was
}

// applied returns the writes of each claim that took effect, in their order. The answers to some may have been lost: the
// next one says which revision it replaced.
func (w *wire) applied(t *testing.T) map[string][]write {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all, open := map[string][]write{}, map[string][]*asked{}
	for _, a := range w.asked {
		known := false
		for _, one := range a.answers {
			if one.kind == "applied" {
				all[a.key] = append(all[a.key], write{a, one.revision, one.at})
				known = true
			}
		}
		if !known {
			open[a.key] = append(open[a.key], a)
		}
	}
	for key, known := range all {
		all[key] = chained(t, key, known, open[key])
	}
	return all
}

// chained adds to the writes of a claim that are known to have taken effect those without which the others could not have.
func chained(t *testing.T, key string, known []write, open []*asked) (chain []write) {
	t.Helper()
	slices.SortFunc(known, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	last := uint64(0)
	for _, next := range known {
		if next.expected != last {
			at := slices.IndexFunc(open, func(a *asked) bool { return a.expected == last })
			if at < 0 || next.expected < last {
				t.Errorf("%s: revision %d, which member %d wrote as %+v, took the place of %d, and the present one was %d: %+v", key, next.revision, next.member, next.claim, next.expected, last, chain[max(0, len(chain)-1):])
				return chain
			}
			chain = append(chain, write{open[at], next.expected, 0})
		}
		chain, last = append(chain, next), next.revision
	}
	return chain
}

// check fails the test unless, by what took effect, each claim had one owner at a time: none wrote after another had
// it, and who got it went on from the positions of the one before. It returns who got claims, by the epoch.
func (w *wire) check(t *testing.T) map[uint64]handover {
	t.Helper()
	taken := map[uint64]handover{}
	for key, chain := range w.applied(t) {
		var before write
		var epoch uint64
		for i, now := range chain {
			switch {
			case now.claim.Owner == "":
			case now.claim.Epoch == 0: // it is taken
				taken[now.revision] = handover{write: now, from: before.owner(), after: epoch, position: positionOf(t, now.state)}
				epoch = now.revision
				if i > 0 && !bytes.Equal(now.state, before.state) {
					t.Errorf("%s: %s got it in revision %d and changed the state from %s to %s", key, now.claim.Owner, epoch, before.state, now.state)
				}
			case now.claim.Epoch != epoch || now.claim.Owner != taken[epoch].claim.Owner:
				t.Errorf("%s: %s writes revision %d under the epoch %d, and %s has it under %d", key, now.claim.Owner, now.revision, now.claim.Epoch, taken[epoch].claim.Owner, epoch)
			}
			before = now
		}
	}
	return taken
}

func (w write) owner() string {
	if w.asked == nil {
		return ""
	}
	return w.claim.Owner
}

// handover is a claim that a member got.
type handover struct {
	write
	from     string // the member that had it, "" when none had
	after    uint64 // epoch of the one before
	position int64
}

// positionOf returns how many bytes of its file the source of a pipeline has settled, in the state of a claim.
func positionOf(t *testing.T, state []byte) int64 {
	t.Helper()
	var saved struct {
		Checkpoints map[string]struct {
			Position record.Position `json:"position"`
		} `json:"checkpoints"`
	}
	if err := json.Unmarshal(state, &saved); err != nil && len(state) > 0 {
		t.Errorf("the state %q of a claim cannot be read: %v", state, err)
	}
	for _, c := range saved.Checkpoints { // of one source
		text, _, _ := strings.Cut(string(c.Position), ";")
		bytes, _ := strconv.ParseInt(text, 10, 64)
		return bytes
	}
	return 0
}
