package exec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/subprocess"
)

type sourceSettings struct {
	commandSettings
	// Format of a line: text (raw), an object (json) or a message of the Singer format (singer).
	Format string `json:"format" default:"raw" validate:"inclusion=raw|json|singer"`
	// For raw and json: whether a restarted command prints the same lines again, so that the source skips them.
	Resume string `json:"resume" default:"no" validate:"inclusion=no|skip"`
}

// source converts the output lines of a command to records.
type source struct {
	sdk.SourceBase
	env      []string // environment of the command
	settings sourceSettings
	args     []string

	place    place // of the last record; place and skip are owned by keepRunning
	skip     int64 // lines left to skip: earlier runs printed them already
	log      *slog.Logger
	throttle *subprocess.Throttle
	out      chan record.Record
	failed   chan error
	cancel   context.CancelFunc
	done     chan struct{} // closed when keepRunning has returned
	ended    atomic.Bool   // the command has ended and does not run again
	skips    progress.Skips
	dir      string // for the Singer state; empty: the command takes no state
}

// Parameters returns the descriptions of the settings.
func (s *source) Parameters() sdk.Parameters { return sdk.Described(s.settings, descriptions) }

// Configure validates and stores the settings.
func (s *source) Configure(_ context.Context, settings map[string]string) (err error) {
	if err = sdk.Decode(settings, &s.settings); err != nil {
		return err
	}
	s.args, err = s.settings.args()
	return err
}

// Open starts the command.
func (s *source) Open(ctx context.Context, pos record.Position) (err error) {
	if err = s.place.parse(pos); err != nil {
		return err
	}
	if s.dir, err = s.stateDir(sdk.EnvFrom(ctx).StateDir); err != nil {
		return fmt.Errorf("cannot make a directory for the state: %w", err)
	}
	s.log = sdk.Logger(ctx)
	s.throttle = subprocess.New(s.log)
	s.out, s.failed, s.done = make(chan record.Record, 1000), make(chan error, 1), make(chan struct{})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go s.keepRunning(running)
	return nil
}

// Read waits for the first record and returns all available records.
func (s *source) Read(ctx context.Context) ([]record.Record, error) {
	var records []record.Record
	select {
	case r := <-s.out:
		records = append(records, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-s.failed:
		if len(s.out) == 0 {
			return nil, err
		}
		s.failed <- err // returned after the available records
	}
	for len(records) < cap(s.out) {
		select {
		case r := <-s.out:
			records = append(records, r)
			continue
		default:
		}
		break
	}
	return records, nil
}

// Progress reports whether the command has ended, the number of remaining records, and the skipped lines. The number of
// remaining records is unknown for a command that runs repeatedly.
func (s *source) Progress() progress.Report {
	r := progress.Report{Skipped: s.skips.List()}
	switch {
	case s.settings.Restart == "always":
	case !s.ended.Load():
		r.Unfinished = "its command has not ended"
	default:
		left := int64(len(s.out))
		r.Records, r.At = &left, time.Now()
	}
	return r
}

// Teardown ends the command.
func (s *source) Teardown(context.Context) error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	<-s.done
	s.throttle.Report()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// keepRunning runs the command, and again as the restart setting requires.
func (s *source) keepRunning(ctx context.Context) {
	defer close(s.done)
	var pause time.Duration
	for ctx.Err() == nil {
		before := s.place.Seq
		err := s.runOnce(ctx)
		again := s.settings.Restart == "always" || err != nil && s.settings.Restart == "on-failure"
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && (!again || errors.As(err, new(*formatError))):
			s.failed <- fmt.Errorf("cannot resume after command %s: %w", s.args[0], err)
			return
		case !again:
			s.log.Info("command has ended, no more data to read")
			s.ended.Store(true)
			return
		case err != nil:
			s.log.Warn("command has failed and is run again", "err", err)
		}
		pause = s.settings.pause(ctx, pause, s.place.Seq != before)
	}
}

// runOnce runs the command to its end. Output after the last newline is a line only if the command succeeds; a failed
// command may have stopped in the middle.
func (s *source) runOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args, err := s.withState()
	if err != nil {
		return err
	}
	cmd := newCommand(ctx, args, s.env, s.log, s.throttle)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := subprocess.Start(cmd); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = stdout.Close() })() // a child process may keep it open
	rest, err := s.takeAll(ctx, bufio.NewReaderSize(stdout, 64<<10))
	if err != nil {
		cancel()
	}
	err = errors.Join(err, subprocess.Wait(cmd))
	switch {
	case len(rest) == 0:
		return err
	case err == nil:
		return s.take(ctx, rest)
	case ctx.Err() == nil:
		s.log.Warn("command has failed in the middle of a line, which is dropped", "err", err)
	}
	return err
}

// takeAll converts all lines to records and returns the bytes after the last newline.
func (s *source) takeAll(ctx context.Context, r *bufio.Reader) (rest []byte, err error) {
	s.skip = 0
	if s.settings.Resume == "skip" && s.settings.Format != "singer" {
		s.skip = s.place.Seq
	}
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, io.EOF):
			return line, nil
		case errors.Is(err, os.ErrClosed):
			return nil, nil
		case errors.As(err, new(longLineError)) && s.settings.Format != "singer":
			s.leaveOut(err)
			continue
		case err != nil:
			return nil, &formatError{err}
		}
		if err := s.take(ctx, line); err != nil {
			return nil, err
		}
	}
}

// leaveOut reports an invalid line, which yields no record.
func (s *source) leaveOut(err error) {
	s.log.Warn("skipping a line", "after", s.place.Seq, "err", err)
	s.skips.Add(fmt.Sprintf("a line behind record %d", s.place.Seq), err)
}

// take converts a line to a record.
func (s *source) take(ctx context.Context, line []byte) error {
	if s.skip > 0 {
		if _, err := parseObject(line); err == nil || s.settings.Format != "json" { // else it was left out
			s.skip--
		}
		return nil
	}
	r, ok, err := s.place.record(s.settings.Format, line)
	if err != nil && s.settings.Format == "json" && s.place.Seq > 0 { // the command has printed valid lines
		s.leaveOut(err)
		return nil
	}
	if err != nil {
		return &formatError{err}
	}
	if !ok {
		return nil
	}
	select {
	case s.out <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stateArgument in an argument stands for the path of the state file.
const stateArgument = "{state}"

// stateDir creates a directory for the state, if the command takes one. Its parent is private, the directory that the
// host keeps for this connector; or else PLUGIN_UNIX_SOCKET_DIR, which the host creates for this process and removes
// after it; or else the system's directory for temporary files.
func (s *source) stateDir(private string) (string, error) {
	takes := func(arg string) bool { return strings.Contains(arg, stateArgument) }
	if s.settings.Format != "singer" || !slices.ContainsFunc(s.args, takes) {
		return "", nil
	}
	if private == "" {
		private = os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	}
	if private != "" {
		if err := os.MkdirAll(private, 0o700); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(private, "state-")
}

// withState returns the command line with the path of the state file. While there is no state, it omits the argument
// for the path and the flag before it.
func (s *source) withState() ([]string, error) {
	var args []string
	path := s.dir + "/state.json"
	if s.place.State != nil && s.dir != "" {
		if err := os.WriteFile(path, s.place.State, 0o600); err != nil {
			return nil, fmt.Errorf("cannot write the state: %w", err)
		}
	}
	for _, a := range s.args {
		switch {
		case !strings.Contains(a, stateArgument) || s.settings.Format != "singer":
			args = append(args, a)
		case s.place.State != nil:
			args = append(args, strings.ReplaceAll(a, stateArgument, path))
		case a == stateArgument && len(args) > 1 && strings.HasPrefix(args[len(args)-1], "-"):
			args = args[:len(args)-1]
		}
	}
	return args, nil
}

// formatError is an error that another run of the command does not fix.
type formatError struct{ error }

func (e *formatError) Unwrap() error { return e.error }
