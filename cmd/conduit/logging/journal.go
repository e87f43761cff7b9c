package logging

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// JournalSocket is the socket on which the journal receives entries.
const JournalSocket = "/run/systemd/journal/socket"

// Limits of the queue for the journal, of entries, and of waiting.
const (
	queueLength       = 1024
	maxEntry          = 64 << 10        // bytes; a longer entry is cut
	sendTimeout       = time.Second     // for the journal to take an entry
	journalEndTimeout = 2 * time.Second // for the journal to take the queued entries at the end
)

// journalFields are the attributes with separate fields in entries, and the names of these fields.
var journalFields = map[string]string{
	"pipeline_id": "PIPELINE_ID", "connector_id": "CONNECTOR_ID", "plugin_name": "PLUGIN_NAME",
	"component": "COMPONENT",
}

// Journal sends entries to the journal in the background, so that a journal that takes none holds nothing up. Entries
// that find no space in the queue are counted, and the journal gets the number when it takes entries again.
//
// It writes to a connected socket. Package journal of go-systemd does not: its Send takes a whole CPU for as long as
// the queue of the journal's socket is full.
type Journal struct {
	path    string
	conn    *net.UnixConn // owned by run
	queue   chan []byte
	dropped atomic.Uint64
	end     chan struct{} // closed after the last entry was queued
	done    chan struct{} // closed when that is sent
}

// OpenJournal connects to the journal with the socket at path.
func OpenJournal(path string) (*Journal, error) {
	w := &Journal{path: path, queue: make(chan []byte, queueLength), end: make(chan struct{}),
		done: make(chan struct{})}
	if err := w.connect(); err != nil {
		return nil, fmt.Errorf("cannot reach the journal: %w", err)
	}
	go w.run()
	return w, nil
}

// Close ends the writer when the queued entries are sent, or after two seconds. Entries written afterwards are lost.
func (w *Journal) Close() {
	close(w.end)
	select {
	case <-w.done:
	case <-time.After(journalEndTimeout):
	}
}

// Dropped returns the number of entries that were dropped and not reported yet.
func (w *Journal) Dropped() uint64 { return w.dropped.Load() }

// write queues an entry. It never blocks.
func (w *Journal) write(entry []byte) {
	select {
	case w.queue <- entry:
	default:
		w.dropped.Add(1)
	}
}

func (w *Journal) run() {
	defer close(w.done)
	defer func() { _ = w.conn.Close() }()
	for {
		select {
		case entry := <-w.queue:
			w.deliver(entry)
		case <-w.end:
			for len(w.queue) > 0 {
				w.deliver(<-w.queue)
			}
			return
		}
	}
}

// deliver sends an entry, after the number of dropped entries before it.
func (w *Journal) deliver(entry []byte) {
	if n := w.dropped.Load(); n > 0 {
		lost := fmt.Sprintf("%d log lines were dropped: the journal was too slow", n)
		if w.send(newEntry(lost, slog.LevelWarn)) == nil {
			w.dropped.Add(-n)
		}
	}
	if w.send(entry) != nil {
		w.dropped.Add(1)
	}
}

// send sends an entry. If the journal was restarted since the last entry, it connects to the new socket.
func (w *Journal) send(entry []byte) error {
	err := w.sendOnce(entry)
	if err == nil || errors.Is(err, syscall.EMSGSIZE) {
		return err
	}
	if err := w.connect(); err != nil {
		return err
	}
	return w.sendOnce(entry)
}

func (w *Journal) sendOnce(entry []byte) error {
	_ = w.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) // of an open socket
	_, err := w.conn.Write(entry)
	return err
}

// connect replaces the connection, if that is possible.
func (w *Journal) connect() error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: w.path, Net: "unixgram"})
	if err != nil {
		return err
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
	w.conn = conn
	return nil
}

// Handler returns a handler for log.level that sends records to the journal.
func (w *Journal) Handler(level string) slog.Handler {
	return &journalHandler{logHandler: logHandler{enc: &textEncoder{bare: true}, level: logLevels[level]}, journal: w}
}

// journalHandler converts a record to an entry: its line, its priority, and its fields.
type journalHandler struct {
	logHandler
	journal *Journal
	fields  []byte // of attributes
}

// Handle implements slog.Handler. It never blocks.
func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	line, _ := h.line(nil, &r)
	e := newEntry(strings.TrimRight(string(line[:min(len(line), maxEntry)]), "\n"), r.Level)
	e = append(e, h.fields...)
	r.Attrs(func(a slog.Attr) bool {
		e = h.field(e, a)
		return true
	})
	h.journal.write(e)
	return nil
}

func (h *journalHandler) field(e []byte, a slog.Attr) []byte {
	if name := journalFields[a.Key]; name != "" && h.group == "" && a.Value.Kind() == slog.KindString {
		return appendJournalField(e, name, a.Value.String())
	}
	return e
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.logHandler = *h.withAttrs(attrs)
	c.fields = slices.Clone(h.fields)
	for _, a := range attrs {
		c.fields = h.field(c.fields, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.logHandler = *h.withGroup(name)
	return &c
}

// newEntry returns an entry without fields of attributes.
func newEntry(message string, l slog.Level) []byte {
	e := appendJournalField(nil, "MESSAGE", message)
	e = appendJournalField(e, "PRIORITY", journalPriority(l))
	return appendJournalField(e, "SYSLOG_IDENTIFIER", "conduit")
}

// journalPriority returns the level in the notation of syslog(3).
func journalPriority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "3"
	case l >= slog.LevelWarn:
		return "4"
	case l >= slog.LevelInfo:
		return "6"
	}
	return "7"
}

// appendJournalField appends a field in the journal's protocol: a value with line breaks is preceded by its length.
func appendJournalField(e []byte, name, value string) []byte {
	e = append(e, name...)
	if !strings.Contains(value, "\n") {
		e = append(append(e, '='), value...)
		return append(e, '\n')
	}
	e = binary.LittleEndian.AppendUint64(append(e, '\n'), uint64(len(value)))
	return append(append(e, value...), '\n')
}
