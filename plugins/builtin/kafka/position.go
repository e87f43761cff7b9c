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

// place is the position of a record. It has the fields of a position of Conduit's connector, and in addition the
// offsets at which the other partitions resume. The text form is JSON:
//
//	{"Topic":"t","Partition":0,"Offset":5,"@resume":1,"GroupID":"g","Next":{"t":{"1":17}},"IDs":{"t":"base64"}}
//
// Group, offsets and ids are not part of the record's identity: they may differ when the record is read again.
type place struct {
	Topic     string
	Partition int32
	Offset    int64 // of the record
	GroupID   string
	Next      vector // nil in a position of Conduit's connector
	IDs       topicIDs
}

// topicIDs maps topics to their ids. A recreated topic has another id. Before Kafka 2.8 topics have no ids.
type topicIDs map[string]string

// vector holds the offset at which each partition of each topic resumes.
type vector map[string]map[int32]int64

// get returns the offset. ok is false if it is unknown.
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

// vector returns the offsets at which partitions resume after the record.
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

// run writes the positions of consecutive records in a partition, which differ only in the offset.
type run struct {
	prefix, suffix []byte
	text           []byte // of all positions so far
}

// offsetMember is the text between the partition and the offset in a position of a run.
const offsetMember = `,"Offset":`

var errTooLong = errors.New("the positions of all partitions are too long for one pipeline: distribute the topics " +
	"over several pipelines")

// newRun returns a run of n records of a partition. v holds the offsets at which the other partitions resume.
func newRun(group string, v vector, ids topicIDs, topic string, partition int32, n int) (*run, error) {
	head, err := json.Marshal(struct {
		Topic     string
		Partition int32
	}{topic, partition})
	if err != nil {
		return nil, fmt.Errorf("cannot encode a position: %w", err)
	}
	tail, err := json.Marshal(struct {
		Resume  int `json:"@resume"`
		GroupID string
		Next    vector
		IDs     topicIDs `json:",omitempty"`
	}{1, group, v, ids})
	if err != nil {
		return nil, fmt.Errorf("cannot encode a position: %w", err)
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

// prefixOf returns the lastMetadata prefix of the positions of a run, or nil for other positions.
func prefixOf(pos record.Position) []byte {
	before, _, ok := bytes.Cut(pos, []byte(offsetMember))
	if !ok {
		return nil
	}
	return pos[:len(before)+len(offsetMember)]
}
