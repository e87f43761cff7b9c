package logging

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	"pipeline_id": "PIPELINE_ID", "connector_id": "CONNECTOR_ID", "plugin_name": "PLUGIN_NAME", "component": "COMPONENT",
}

// Journal sends entries to the journal in the background, so that a journal that takes none holds nothing up. Entries
// that find no space in the queue are counted, and the journal gets the number when it takes entries again.
type Journal struct {
	path    string
	queue   chan []byte
	dropped atomic.Uint64
	end     chan struct{} // closed after the last entry was queued
	done    chan struct{} // closed when that is sent
}

// OpenJournal connects to the journal with the socket at path.
func OpenJournal(path string) (*Journal, error) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cannot reach the journal: %w", err)
	}
	w := &Journal{path: path, queue: make(chan []byte, queueLength), end: make(chan struct{}), done: make(chan struct{})}
	go w.run(conn)
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

func (w *Journal) run(conn *net.UnixConn) {
	defer close(w.done)
	defer func() { _ = conn.Close() }()
	for {
		select {
		case entry := <-w.queue:
			w.deliver(&conn, entry)
			continue
		case <-w.end:
		}
		select {
		case entry := <-w.queue:
			w.deliver(&conn, entry)
		default:
			return
		}
	}
}

// deliver sends an entry, after the number of dropped entries before it.
func (w *Journal) deliver(conn **net.UnixConn, entry []byte) {
	if n := w.dropped.Load(); n > 0 && w.send(conn, lostEntries(n)) == nil {
		w.dropped.Add(-n)
	}
	if w.send(conn, entry) != nil {
		w.dropped.Add(1)
	}
}

// lostEntries returns the entry that reports n missing entries.
func lostEntries(n uint64) []byte {
	e := appendJournalField(nil, "PRIORITY", "4")
	e = appendJournalField(e, "SYSLOG_IDENTIFIER", journalIdentifier)
	return appendJournalField(e, "MESSAGE",
		fmt.Sprintf("%d lines of the log are missing: the journal did not take them in time", n))
}

// send sends an entry. If the journal was restarted since the last entry, it connects to the new socket.
func (w *Journal) send(conn **net.UnixConn, entry []byte) error {
	err := writeEntry(*conn, entry)
	if err == nil || errors.Is(err, syscall.EMSGSIZE) {
		return err
	}
	next, dialled := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: w.path, Net: "unixgram"})
	if dialled != nil {
		return dialled
	}
	_ = (*conn).Close()
	*conn = next
	return writeEntry(next, entry)
}

func writeEntry(conn *net.UnixConn, entry []byte) error {
	_ = conn.SetWriteDeadline(time.Now().Add(sendTimeout)) // of an open socket
	_, err := conn.Write(entry)
	return err
}

const journalIdentifier = "conduit"

// Handler returns a handler that sends records to the journal, with the text that the handler from lines writes for
// them.
func (w *Journal) Handler(lines func(to io.Writer) slog.Handler) slog.Handler {
	return &journalHandler{out: w, lines: lines, text: lines}
}

// journalHandler converts a record to an entry: its line, its priority, and its fields.
type journalHandler struct {
	out    *Journal
	lines  func(io.Writer) slog.Handler
	text   func(io.Writer) slog.Handler // lines with attributes and groups
	fields []byte                       // of attributes
	group  bool
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.lines(io.Discard).Enabled(ctx, l)
}

// Handle implements slog.Handler. It never blocks.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	var line bytes.Buffer
	if err := h.text(&line).Handle(ctx, r); err != nil {
		return err
	}
	e := appendJournalField(nil, "MESSAGE", strings.TrimRight(string(line.Bytes()[:min(line.Len(), maxEntry)]), "\n"))
	e = appendJournalField(e, "PRIORITY", journalPriority(r.Level))
	e = appendJournalField(e, "SYSLOG_IDENTIFIER", journalIdentifier)
	e = append(e, h.fields...)
	r.Attrs(func(a slog.Attr) bool {
		e = h.field(e, a)
		return true
	})
	h.out.write(e)
	return nil
}

func (h *journalHandler) field(e []byte, a slog.Attr) []byte {
	if name := journalFields[a.Key]; name != "" && !h.group && a.Value.Kind() == slog.KindString {
		return appendJournalField(e, name, a.Value.String())
	}
	return e
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c, before := *h, h.text
	c.text = func(to io.Writer) slog.Handler { return before(to).WithAttrs(attrs) }
	c.fields = slices.Clone(h.fields)
	for _, a := range attrs {
		c.fields = h.field(c.fields, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	c, before := *h, h.text
	c.text = func(to io.Writer) slog.Handler { return before(to).WithGroup(name) }
	c.group = c.group || name != ""
	return &c
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
