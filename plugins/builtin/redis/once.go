package redis

import (
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
)

// once keeps the ids of the most recently written records in a list on the server. Each element of the list has the ids
// of a single script call.
type once struct {
	key      string
	sequence common.RecordIDs

	known map[common.RecordID]struct{} // written before connecting; nil when they cannot occur again
	kept  []int                        // number of ids in each element, oldest first
	sum   int                          // sum of kept
	since int                          // ids added since connecting
}

const idBytes = len(common.RecordID{})

// identify sets the record ids of elements.
func (o *once) identify(records []record.Record, all []element) {
	ids := o.sequence.IDs(records)
	for i := range all {
		all[i].id = ids[all[i].index][:]
	}
}

func (o *once) wrote(n int, err error) { o.sequence.Wrote(n, err) }

// load loads the ids from the server.
func (o *once) load(c redis.Conn) error {
	elements, err := redis.ByteSlices(c.Do("LRANGE", o.key, 0, -1))
	if err != nil {
		return fmt.Errorf("cannot read the positions in %s: %w", o.key, err)
	}
	o.known, o.kept, o.sum, o.since = map[common.RecordID]struct{}{}, nil, 0, 0
	for _, e := range elements {
		n := len(e) / idBytes
		for i := range n {
			o.known[common.RecordID(e[i*idBytes:(i+1)*idBytes])] = struct{}{}
		}
		o.kept, o.sum = append(o.kept, n), o.sum+n
	}
	return nil
}

// unknown returns the elements that are not written yet.
func (o *once) unknown(all []element) (left []element) {
	for _, e := range all {
		if _, ok := o.known[common.RecordID(e.id)]; !ok {
			left = append(left, e)
		}
	}
	return left
}

// old returns the number of elements of the list that are no longer needed.
func (o *once) old() (n int) {
	for sum := o.sum; n < len(o.kept) && sum-o.kept[n] >= common.IDWindow; n++ {
		sum -= o.kept[n]
	}
	return n
}

// noted updates the counts after the script has added n ids and removed the old elements.
func (o *once) noted(n int) {
	old := o.old()
	for _, k := range o.kept[:old] {
		o.sum -= k
	}
	o.kept = o.kept[old:]
	if n > 0 {
		o.kept, o.sum = append(o.kept, n), o.sum+n
	}
	if o.since += n; o.since > common.IDWindow {
		o.known = nil // all outstanding records have arrived
	}
}
