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

// wire is the record that proxies make of the writes of claims: the requests of members, and the answers of servers.
type wire struct {
	begin time.Time
	mu    sync.Mutex
	asked map[string]*asked // guarded by mu: by the reply subject
}

// asked is a write that a member sent, with the time of each copy on the link, and all answers of the servers.
type asked struct {
	key      string
	member   int
	expected uint64
	claim    protocol.Claim
	state    []byte
	calls    []time.Duration
	answers  []answer
}

// answer is the answer of a server to a write.
type answer struct {
	at       time.Duration
	kind     string // of server.Operation, "busy" when an earlier attempt may be in flight
	revision uint64
}

func newWire() *wire { return &wire{begin: time.Now(), asked: map[string]*asked{}} }

// observer returns the callback for the proxies of a member.
func (w *wire) observer(member int) func(ofServer bool, message []byte) {
	return func(ofServer bool, message []byte) {
		now := time.Since(w.begin)
		line, body, _ := bytes.Cut(message, []byte("\r\n"))
		fields := strings.Fields(string(line))
		switch {
		case ofServer && (fields[0] == "MSG" || fields[0] == "HMSG"):
			w.answered(now, fields[1], body)
		case !ofServer && fields[0] == "HPUB" && len(fields) == 5 &&
			strings.HasPrefix(fields[1], "$KV.conduit-test."+protocol.ClaimPrefix):
			w.called(now, member, fields, body)
		}
	}
}

var expectedRevision = regexp.MustCompile(`(?m)^Nats-Expected-Last-Subject-Sequence: (\d+)\r$`)

// called records a write. The fields contain the subject, the reply subject and the size of the headers.
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
	case err != nil: // for example: no server is available
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
	if slices.ContainsFunc(a.answers, func(o answer) bool {
		return o.kind == "applied" && o.revision == one.revision
	}) {
		return // two servers lead for a moment, and both answer
	}
	a.answers = append(a.answers, one)
}

// history returns the requests and answers as a history of a register. It is unknown which copy of a write an answer
// belongs to, so each write may have taken effect as early as its first copy.
func (w *wire) history() (*server.History, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, n := &server.History{}, 0
	// The first copy of each write counts.
	inOrder := slices.SortedFunc(maps.Values(w.asked), func(a, b *asked) int {
		return cmp.Compare(a.calls[0], b.calls[0])
	})
	for _, a := range inOrder {
		o := server.Operation{Key: a.key, Client: a.member, Call: int64(a.calls[0]), Expected: a.expected,
			Stamp: fmt.Sprint(a.claim.Stamp.Session, "/", a.claim.Stamp.Write)}
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

// write is a write that took effect.
type write struct {
	*asked
	revision uint64
	at       time.Duration // time of the answer; 0 if none was seen
}

// applied returns the writes of each claim that took effect, in order. The answers to some may have been lost: the next
// write contains the revision that it replaced.
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

// chained adds to the writes of a claim that are known to have taken effect the unanswered ones on which they depend.
func chained(t *testing.T, key string, known []write, open []*asked) (chain []write) {
	t.Helper()
	slices.SortFunc(known, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	last := uint64(0)
	for _, next := range known {
		if next.expected != last {
			at := slices.IndexFunc(open, func(a *asked) bool { return a.expected == last })
			if at < 0 || next.expected < last {
				t.Errorf("%s: revision %d, which member %d wrote as %+v, took the place of %d, and the present one "+
					"was %d: %+v", key, next.revision, next.member, next.claim, next.expected, last,
					chain[max(0, len(chain)-1):])
				return chain
			}
			chain = append(chain, write{open[at], next.expected, 0})
		}
		chain, last = append(chain, next), next.revision
	}
	return chain
}

// check fails the test unless, according to the applied writes, each claim had one owner at a time: no owner wrote
// after another one had taken the claim, and each new owner resumed from the positions of the former one. It returns
// the handovers by epoch.
func (w *wire) check(t *testing.T) map[uint64]handover {
	t.Helper()
	taken := map[uint64]handover{}
	for key, chain := range w.applied(t) {
		var before write
		var epoch uint64
		for i, now := range chain {
			switch {
			case now.claim.Owner == "":
			case now.claim.Epoch == 0: // a new owner takes the claim
				taken[now.revision] = handover{write: now, from: before.owner(), after: epoch,
					position: positionOf(t, now.state)}
				epoch = now.revision
				if i > 0 && !bytes.Equal(now.state, before.state) {
					t.Errorf("%s: %s got it in revision %d and changed the state from %s to %s", key, now.claim.Owner,
						epoch, before.state, now.state)
				}
			case now.claim.Epoch != epoch || now.claim.Owner != taken[epoch].claim.Owner:
				t.Errorf("%s: %s writes revision %d under the epoch %d, and %s has it under %d", key, now.claim.Owner,
					now.revision, now.claim.Epoch, taken[epoch].claim.Owner, epoch)
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

// handover is a claim that a member took.
type handover struct {
	write
	from     string // the former owner, "" if there was none
	after    uint64 // epoch of the former owner
	position int64
}

// positionOf returns how many bytes of the input file the source of a pipeline has settled, according to the state
// of a claim.
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
	for _, c := range saved.Checkpoints { // of the single source
		text, _, _ := strings.Cut(string(c.Position), ";")
		bytes, _ := strconv.ParseInt(text, 10, 64)
		return bytes
	}
	return 0
}
