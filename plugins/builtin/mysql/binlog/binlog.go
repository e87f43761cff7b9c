// Package binlog is a replica of MariaDB or MySQL: it logs in, requests the row-based binary log, decodes its events,
// and keeps sets of global transaction identifiers (GTID). It also logs in for a driver, which then takes over the
// session. The protocol and the formats are documented at https://mariadb.com/kb/en/replication-protocol/,
// https://mariadb.com/kb/en/2-binlog-event-header/,
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html and
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html.
package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Types of events that the decoder decodes. It ignores all others.
const (
	typeQuery             = 2
	typeRotate            = 4
	typeFormat            = 15
	typeXID               = 16
	typeBeginLoad         = 17
	typeExecuteLoad       = 18
	typeTableMap          = 19
	typeWriteV1           = 23
	typeUpdateV1          = 24
	typeDeleteV1          = 25
	typeIncident          = 26
	typeHeartbeat         = 27
	typeWriteV2           = 30
	typeUpdateV2          = 31
	typeDeleteV2          = 32
	typeGTID              = 33
	typeAnonymousGTID     = 34
	typeXAPrepare         = 38
	typePartialUpdate     = 39
	typePayload           = 40
	typeHeartbeatV2       = 41
	typeTaggedGTID        = 42
	typeMariaGTID         = 162
	typeQueryCompressed   = 165
	typeWriteCompressed   = 166
	typeDeleteV2Compessed = 171
)

const (
	headerLength   = 19
	checksumLength = 4
)

// ErrCorrupt reports an event that cannot be decoded.
var ErrCorrupt = errors.New("the event is damaged or has an unknown format")

// Header is the common header of all events.
type Header struct {
	Time     uint32 // seconds since 1970, at the beginning of the statement
	Type     byte
	ServerID uint32 // of the server that wrote it first
	Size     uint32 // of the event
	End      uint32 // offset of the end of the event in the file; 0: the event is not in the file
	Flags    uint16
}

// Artificial reports whether the server made the event for the reader, so that it is not in the file.
func (h *Header) Artificial() bool { return h.Flags&0x20 != 0 }

// Format begins a file: the time in its header is the creation time of the file.
type Format struct{}

// Rotate gives the file and the offset of the following events.
type Rotate struct {
	File string
	Pos  uint64
}

// GTID begins a transaction.
type GTID struct {
	UUID       [16]byte // MySQL only, otherwise zero
	Domain     uint32   // MariaDB only
	ServerID   uint32   // MariaDB only
	Sequence   uint64   // 0: the transaction has no GTID
	Standalone bool     // MariaDB only: one event follows, without a commit
	Committed  uint64   // microseconds since 1970; 0: unknown
	MariaDB    bool
}

// Query is a statement: the beginning or end of a transaction, or a change of the schema.
type Query struct{ Schema, SQL string }

// XID is the commit of a transaction.
type XID struct{}

// Heartbeat says that the server has nothing to send. The header has the offset.
type Heartbeat struct{ File string }

// Incident reports that the server lost events.
type Incident struct{ Message string }

// XAPrepare ends the events of a transaction that another statement commits or rolls back.
type XAPrepare struct{}

// Unsupported is an event with changes that the decoder cannot read.
type Unsupported struct{ Reason string }

// Decoder decodes the events of a session, in order. It keeps the table maps and the format description.
type Decoder struct {
	known    bool // the format is known
	checksum bool
	maria    bool // MariaDB writes the log
	tables   map[uint64]*Table
	kept     int // approximate memory of tables in bytes
}

// maxTables bounds the number of table maps kept past the end of a transaction.
const maxTables = 1024

// forget drops the table maps if there are many: a transaction repeats those it uses.
func (d *Decoder) forget() {
	if len(d.tables) > maxTables || d.kept > maxKept/2 {
		d.tables, d.kept = nil, 0
	}
}

// Decode returns the header and the decoded event: a value of a type of this package, or nil for an ignored
// event. The event refers to raw, which must not change until the next call.
//
// A *Payload holds further events.
func (d *Decoder) Decode(raw []byte) (h Header, event any, err error) {
	r := reader{data: raw}
	h = Header{Time: r.uint32(), Type: r.uint8(), ServerID: r.uint32()}
	h.Size = r.uint32()
	h.End, h.Flags = r.uint32(), r.uint16()
	if r.failed || uint64(h.Size) != uint64(len(raw)) && uint64(len(raw)) < math.MaxUint32 {
		return h, nil, fmt.Errorf("cannot read an event of %d bytes: %w", len(raw), ErrCorrupt)
	}
	body := raw[headerLength:]
	if h.Type == typeFormat {
		return h, &Format{}, d.format(body)
	}
	if body, err = d.verify(&h, raw, body); err != nil {
		return h, nil, err
	}
	event, err = d.decode(&h, body)
	if err != nil {
		err = fmt.Errorf("cannot read an event of type %d that ends at %d: %w", h.Type, h.End, err)
	}
	return h, event, err
}

// format records whether events have checksums. It does not check the checksum of the format event: while a server
// writes to a file, it sends the event with a changed flag.
func (d *Decoder) format(body []byte) error {
	const fixed = 2 + 50 + 4 + 1
	if len(body) < fixed+checksumLength+1 || binary.LittleEndian.Uint16(body) != 4 || body[fixed-1] != headerLength {
		return fmt.Errorf("cannot read the format description of the binary log: %w", ErrCorrupt)
	}
	d.known, d.checksum = true, body[len(body)-checksumLength-1] == 1
	d.maria = bytes.Contains(body[2:52], []byte("MariaDB"))
	d.tables, d.kept = map[uint64]*Table{}, 0
	return nil
}

// verify checks the checksum and returns the body without it. Before the format is known, an event has a checksum if
// the last four bytes match.
func (d *Decoder) verify(h *Header, raw, body []byte) ([]byte, error) {
	if d.known && !d.checksum {
		return body, nil
	}
	if len(body) < checksumLength {
		return body, d.damaged(h)
	}
	end := len(raw) - checksumLength
	if crc32.ChecksumIEEE(raw[:end]) == binary.LittleEndian.Uint32(raw[end:]) {
		return body[:len(body)-checksumLength], nil
	}
	return body, d.damaged(h)
}

func (d *Decoder) damaged(h *Header) error {
	if !d.known {
		return nil
	}
	return fmt.Errorf("cannot read an event of type %d that ends at %d: the checksum does not match", h.Type, h.End)
}

func (d *Decoder) decode(h *Header, body []byte) (any, error) {
	r := &reader{data: body}
	switch t := h.Type; {
	case t == typeRotate:
		return r.done(&Rotate{Pos: r.uint64(), File: string(r.rest())})
	case t == typeMariaGTID:
		d.forget()
		return r.mariaGTID(h)
	case t == typeGTID || t == typeAnonymousGTID:
		d.forget()
		return r.gtid(h)
	case t == typeQuery || t == typeQueryCompressed:
		return r.query(t == typeQueryCompressed)
	case t == typeXID:
		return &XID{}, nil
	case t == typeTableMap:
		return d.tableMap(r)
	case t >= typeWriteV1 && t <= typeDeleteV1, t >= typeWriteV2 && t <= typeDeleteV2, t >= typeWriteCompressed &&
		t <= typeDeleteV2Compessed:
		return d.rows(r, t)
	case t == typeHeartbeat:
		return &Heartbeat{string(r.rest())}, nil
	case t == typeHeartbeatV2:
		return &Heartbeat{}, nil
	case t == typeIncident:
		r.take(2)
		return &Incident{string(r.take(int(r.uint8())))}, nil
	case t == typeXAPrepare:
		return &XAPrepare{}, nil
	case t == typePayload:
		return d.payload(r)
	}
	return unsupported(h.Type), nil
}

func unsupported(t byte) any {
	switch t {
	case typeBeginLoad, typeExecuteLoad:
		return &Unsupported{"a LOAD DATA statement instead of rows, because binlog_format was not ROW in " +
			"the session that ran it"}
	case typePartialUpdate:
		return &Unsupported{"a row with incomplete JSON values: run SET GLOBAL binlog_row_value_options = ''"}
	case typeTaggedGTID:
		return &Unsupported{"a GTID with a tag, which is not supported"}
	}
	return nil
}

func (r *reader) mariaGTID(h *Header) (any, error) {
	g := &GTID{MariaDB: true, ServerID: h.ServerID, Sequence: r.uint64(), Domain: r.uint32()}
	g.Standalone = r.uint8()&1 != 0
	return r.done(g)
}

func (r *reader) gtid(h *Header) (any, error) {
	g := &GTID{}
	r.take(1)
	copy(g.UUID[:], r.take(16))
	g.Sequence = r.uint64()
	if h.Type == typeAnonymousGTID {
		g.UUID, g.Sequence = [16]byte{}, 0
	}
	if r.failed || len(r.data) < 1+16+7 || r.data[0] != 2 { // without logical timestamps there is no commit time either
		return r.done(g)
	}
	r.take(17)
	at := r.take(7)
	for i, b := range at {
		g.Committed |= uint64(b) << (8 * i)
	}
	g.Committed &= 1<<55 - 1
	return r.done(g)
}

func (r *reader) query(compressed bool) (any, error) {
	r.take(8)
	schema := int(r.uint8())
	r.take(2)
	r.take(int(r.uint16()))
	q := &Query{Schema: string(r.take(schema))}
	r.take(1)
	text := r.rest()
	if compressed && !r.failed {
		var err error
		if text, err = inflate(text); err != nil {
			return nil, err
		}
	}
	q.SQL = string(text)
	return r.done(q)
}
