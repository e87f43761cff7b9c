package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// place is where a record stands: that of Conduit's connector, and what it does not keep, the
// offsets at which the other partitions go on. The text form is JSON:
//
//	{"Topic":"t","Partition":0,"Offset":5,"@resume":1,"GroupID":"g","Next":{"t":{"1":17}},"IDs":{"t":"base64"}}
//
// Group, offsets and ids are no part of the record's identity: read again, it may have others.
type place struct {
	Topic     string
	Partition int32
	Offset    int64 // of the record
	GroupID   string
	Next      vector // nil in a position of Conduit's
	IDs       topicIDs
}

// topicIDs has the id of each topic, which one that is recreated does not have. Servers of before Kafka 2.8 have none.
type topicIDs map[string]string

// vector has the offset at which each partition of each topic goes on.
type vector map[string]map[int32]int64

// get returns the offset. ok is false when it is not known.
func (v vector) get(topic string, partition int32) (offset int64, ok bool) {
	offset, ok = v[topic][partition]
	return offset, ok
}

func (v vector) set(topic string, partition int32, offset int64) {
	if v[topic] == nil {
		v[topic] = map[int32]int64{}
	}
	v[topic][partition] = offset
}

func parsePosition(pos record.Position) (p place, err error) {
	d := json.NewDecoder(bytes.NewReader(pos))
	if err := d.Decode(&p); err != nil || p.Topic == "" || p.Partition < 0 || p.Offset < 0 {
		return p, sdk.CannotResume(pos, "a position of kafka")
	}
	return p, nil
}

func abbreviate(pos record.Position) []byte {
	const most = 200
	if len(pos) > most {
		return append(bytes.Clone(pos[:most]), "…"...)
	}
	return pos
}

// vector returns where partitions go on behind the record.
func (p place) vector() vector {
	v := vector{}
	for topic, partitions := range p.Next {
		for partition, offset := range partitions {
			v.set(topic, partition, offset)
		}
	}
	v.set(p.Topic, p.Partition, p.Offset+1)
	return v
}

// run writes the positions of records of one partition that follow each other, which differ
// in the offset alone.
type run struct {
	prefix, suffix []byte
	text           []byte // of all positions so far
}

// offsetMember is what is between the partition and the offset in a position of a run.
const offsetMember = `,"Offset":`

var errTooLong = errors.New("the positions of so many partitions are too long: distribute the topics over several pipelines")

// newRun returns the run of n records of a partition. v is where the others go on.
func newRun(group string, v vector, ids topicIDs, topic string, partition int32, n int) (*run, error) {
	head, err := json.Marshal(struct {
		Topic     string
		Partition int32
	}{topic, partition})
	if err != nil {
		return nil, fmt.Errorf("cannot write a position: %w", err)
	}
	tail, err := json.Marshal(struct {
		Resume  int `json:"@resume"`
		GroupID string
		Next    vector
		IDs     topicIDs `json:",omitempty"`
	}{1, group, v, ids})
	if err != nil {
		return nil, fmt.Errorf("cannot write a position: %w", err)
	}
	r := &run{prefix: append(head[:len(head)-1], offsetMember...), suffix: append([]byte{','}, tail[1:]...)}
	if r.length() > record.MaxPosition {
		return nil, errTooLong
	}
	r.text = make([]byte, 0, n*r.length())
	return r, nil
}

const offsetDigits = 20 // of the longest offset

func (r *run) length() int { return len(r.prefix) + offsetDigits + len(r.suffix) }

func (r *run) position(offset int64) record.Position {
	start := len(r.text)
	r.text = append(r.text, r.prefix...)
	r.text = strconv.AppendInt(r.text, offset, 10)
	r.text = append(r.text, r.suffix...)
	return r.text[start:len(r.text):len(r.text)]
}

// prefixOf returns the beginning of a position of a run, which all positions of its partition have, nil of others.
func prefixOf(pos record.Position) []byte {
	before, _, ok := bytes.Cut(pos, []byte(offsetMember))
	if !ok {
		return nil
	}
	return pos[:len(before)+len(offsetMember)]
}
