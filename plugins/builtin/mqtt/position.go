package mqtt

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// numbers makes positions. A position consists of a random number of the run, the number of the message, and its time
// of receipt in Unix seconds. The session at the server determines where the source resumes; a position only records
// that a session existed, and the time of the last message.
type numbers struct {
	run  string
	last uint64
	when *atomic.Int64 // time of receipt of the last message, in Unix seconds; 0: none
}

var pattern = texts.Regexp(`^[0-9a-f]{16}:[0-9]{1,20}:([0-9]{1,12})$`)

func newNumbers(pos record.Position) (numbers, error) {
	n := numbers{when: &atomic.Int64{}}
	if len(pos) > 0 {
		found := pattern().FindSubmatch(pos)
		if found == nil {
			return n, sdk.CannotResume(pos, "a position of mqtt")
		}
		at, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			return n, err
		}
		n.when.Store(at)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	n.run = hex.EncodeToString(b[:])
	return n, nil
}

func (n *numbers) next(now time.Time) record.Position {
	n.last++
	n.when.Store(now.Unix())
	return fmt.Appendf(nil, "%s:%d:%d", n.run, n.last, now.Unix())
}

// at returns the time of receipt of the last message.
func (n *numbers) at() time.Time { return time.Unix(n.when.Load(), 0) }
