package journald

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

type settings struct {
	// Directory with journal files. Default: the journal of this host.
	Directory string `json:"directory" literal:"true"`
	// Namespace of the journal.
	Namespace string `json:"namespace" literal:"true"`
	// Units to read, such as nginx.service or ssh*. Default: all.
	Units []string `json:"units" literal:"true"`
	// Lowest priority of entries to read: emerg, alert, crit, err, warning, notice, info or debug. Default: all.
	Priority string `json:"priority" validate:"inclusion=emerg|alert|crit|err|warning|notice|info|debug"`
	// Fields that an entry must have, as NAME=VALUE. Values of the same field are alternatives.
	Matches []string `json:"matches"`
	// Starting point without a position: the oldest entry, the first one since boot, or new entries.
	Start string `json:"start" default:"oldest" validate:"inclusion=oldest|boot|newest"`
	// Action when entries were removed before they were read: stop with an error, or log it and continue with the
	// remaining entries.
	Gap string `json:"gap" default:"stop" validate:"inclusion=stop|continue"`
}

var match = texts.Regexp(`^[A-Z0-9_]+=`)

func (s *settings) check(ctx context.Context) error {
	for _, m := range s.Matches {
		if !match().MatchString(m) {
			return sdk.SettingError{Setting: "matches",
				Message: fmt.Sprintf("must be NAME=VALUE, such as SYSLOG_IDENTIFIER=cron, not %q", m)}
		}
	}
	wrong := func(m string) string {
		if strings.Contains(m, "*") {
			return "cannot have *, because fields are compared exactly; only units supports patterns"
		}
		return ""
	}
	if err := common.CheckItems("matches", s.Matches, wrong, nil); err != nil {
		return err
	}
	if err := common.CheckItems("units", s.Units, func(string) string { return "" }, nil); err != nil {
		return err
	}
	if s.Directory != "" && s.Namespace != "" {
		return sdk.SettingError{Setting: "namespace", Message: "cannot be set with directory"}
	}
	return sdk.CheckPath(ctx, "directory", s.Directory)
}

// Source follows the journal.
type Source struct {
	sdk.SourceBase

	settings settings
	log      *slog.Logger
	cursor   string   // of the last entry; empty if there is none
	checked  bool     // the entry exists, or the missed entries are reported
	journal  *journal // nil while journalctl does not run
	again    common.Backoff
	latest   progress.Latest
	damaged  bool           // the entry at the cursor is unreadable: reading starts after it
	skips    progress.Skips // safe for concurrent use
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(settings{}, descriptions) }

// Configure validates and stores the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	s.settings = settings{}
	if err := sdk.Decode(values, &s.settings); err != nil {
		return err
	}
	return s.settings.check(ctx)
}

// Open sets the position, which is a cursor of the journal.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	s.log, s.cursor, s.checked = sdk.Logger(ctx), string(pos), len(pos) == 0
	if len(pos) > 0 && !strings.HasPrefix(s.cursor, "s=") {
		return sdk.CannotResume(pos, "a cursor of a journal")
	}
	return findProgram()
}

// Read returns entries as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	for {
		records, err := s.try(ctx)
		switch {
		case ctx.Err() != nil:
			s.stop()
			return nil, ctx.Err()
		case errors.As(err, new(gapError)):
			return nil, err
		case err == nil && len(records) == 0:
			continue
		case err == nil:
			s.again = common.Backoff{}
			return records, nil
		}
		s.stop()
		s.latest.Note(err.Error())
		s.log.Warn("cannot read the journal, retrying", "err", err)
		if err := s.again.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Source) try(ctx context.Context) ([]record.Record, error) {
	if !s.checked {
		if err := s.gap(ctx); err != nil {
			return nil, err
		}
		s.checked = true
	}
	if s.journal == nil {
		j, err := start(append(s.place(), s.settings.args()...), s.log)
		if err != nil {
			return nil, err
		}
		s.journal = j
	}
	defer context.AfterFunc(ctx, s.journal.kill)()
	entries, err := s.journal.entries()
	if damaged := (damagedError{}); errors.As(err, &damaged) {
		s.leaveOut("entry "+damaged.cursor, err)
		s.cursor, s.damaged = damaged.cursor, true
		s.stop()
		return nil, nil
	}
	if len(entries) == 0 {
		s.checked = s.cursor == ""
		return nil, err
	}
	if numberOf(entries[0].get("__CURSOR")) == numberOf(s.cursor) {
		if entries = entries[1:]; len(entries) == 0 {
			return nil, nil
		}
	}
	records := make([]record.Record, len(entries))
	for i, e := range entries {
		for _, name := range e[left] {
			s.leaveOut(fmt.Sprintf("field %.64s of entry %s", name, e.get("__CURSOR")), errLarge)
		}
		records[i] = e.record()
	}
	s.damaged = false
	s.cursor = string(records[len(records)-1].Position)
	s.report(entries[len(entries)-1].time())
	return records, nil
}

// place returns the arguments for the start of reading. With a cursor, reading starts with the last read entry itself:
// --after-cursor skips an entry even when the entry at the cursor is gone and another one takes its place.
func (s *Source) place() []string {
	switch {
	case s.damaged:
		return []string{"--follow", "--no-tail", "--after-cursor=" + s.cursor}
	case s.cursor != "":
		return []string{"--follow", "--no-tail", "--cursor=" + s.cursor}
	case s.settings.Start == "newest":
		return []string{"--follow", "--lines=0"}
	case s.settings.Start == "boot":
		return []string{"--follow", "--no-tail", "--boot"}
	}
	return []string{"--follow", "--no-tail"}
}

// where returns the arguments that select the journal.
func (s *settings) where() []string {
	var args []string
	if s.Directory != "" {
		args = append(args, "--directory="+s.Directory)
	}
	if s.Namespace != "" {
		args = append(args, "--namespace="+s.Namespace)
	}
	return args
}

func (s *settings) args() []string {
	args := s.where()
	for _, u := range s.Units {
		args = append(args, "--unit="+u)
	}
	if s.Priority != "" {
		args = append(args, "--priority="+s.Priority)
	}
	return append(args, s.Matches...)
}

func (s *Source) report(newest time.Time) {
	behind := 0.0
	if s.journal.more() {
		behind = max(0, time.Since(newest).Seconds())
	}
	s.latest.Set(progress.Report{Seconds: &behind, At: time.Now()})
}

// Progress reports the age of the newest read entry; 0 if there is no entry after it.
func (s *Source) Progress() progress.Report {
	r := s.latest.Report()
	r.Skipped = s.skips.List()
	return r
}

// leaveOut reports a skipped entry, or a skipped part of an entry.
func (s *Source) leaveOut(what string, err error) {
	if s.skips.Add(what, err) {
		s.log.Warn("cannot read part of the journal, skipping it", "what", what, "err", err)
	}
}

// Teardown ends journalctl.
func (s *Source) Teardown(context.Context) error {
	s.stop()
	return nil
}

func (s *Source) stop() {
	if s.journal != nil {
		s.journal.close()
		s.journal = nil
	}
}

// gapError reports missed entries.
type gapError struct{ error }

// gap returns an error when the entry at the cursor and entries after it are gone. Journals remove their oldest entries
// first. The sequence numbers show how many are gone.
func (s *Source) gap(ctx context.Context) error {
	first, err := s.settings.at(ctx, s.cursor)
	if err != nil {
		return err
	}
	was, is := numberOf(s.cursor), numberOf(first)
	if first == "" || first == s.cursor || was == is {
		return nil
	}
	text := "entries may have been missed: the last entry read is no longer in the journal"
	if was.source == is.source && is.number > was.number {
		missed := is.number - was.number - 1
		if missed == 0 {
			return nil
		}
		text = fmt.Sprintf("up to %d entries of the journal, including entries that the settings exclude, were "+
			"missed, because they were removed before they were read", missed)
	}
	err = fmt.Errorf("%s. To keep more entries, increase SystemMaxUse in journald.conf. To continue with the "+
		"remaining entries, set gap to continue", text)
	if s.settings.Gap != "continue" {
		return gapError{err}
	}
	s.log.Error("continuing without the missing entries", "err", err)
	s.skips.Add("entries after "+s.cursor, err)
	return nil
}

// number is the sequence number of an entry in a journal.
type number struct {
	source string
	number uint64
}

func numberOf(cursor string) (n number) {
	for part := range strings.SplitSeq(cursor, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "s":
			n.source = value
		case "i":
			n.number, _ = strconv.ParseUint(value, 16, 64)
		}
	}
	return n
}

// record converts an entry to a record.
func (e entry) record() record.Record {
	object := make(map[string]any, len(e))
	for name, values := range e {
		if strings.HasPrefix(name, "__") {
			continue // metadata of the entry
		}
		object[name] = textOrBytes(values[0])
		if len(values) > 1 {
			all := make([]any, len(values))
			for i, v := range values {
				all[i] = textOrBytes(v)
			}
			object[name] = all
		}
	}
	r := record.Record{Position: record.Position(e.get("__CURSOR")), Operation: record.OperationCreate,
		After: record.Structured(object)}
	r.Metadata.Set(record.KeyCreatedAt, strconv.FormatInt(e.time().UnixNano(), 10))
	if unit := e.get("_SYSTEMD_UNIT"); utf8.ValidString(unit) && unit != "" {
		r.Metadata.Set(record.KeyCollection, unit)
	}
	return r
}

func textOrBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return b
}
