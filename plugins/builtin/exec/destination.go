package exec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/subprocess"
)

type destinationSettings struct {
	commandSettings
	// Whether the command prints a line after it has processed a record: ok, or the reason why it refuses the record.
	// Otherwise a record counts as written once it is in the standard input of the command.
	Confirm bool `json:"confirm" default:"false"`
}

// destination writes records to a command.
type destination struct {
	sdk.DestinationBase
	env      []string // environment of the command
	settings destinationSettings
	args     []string
	log      *slog.Logger
	throttle *subprocess.Throttle

	ctx    context.Context // context of the command
	cancel context.CancelFunc
	cmd    *exec.Cmd // nil while no command runs
	stdin  io.WriteCloser
	stdout *bufio.Reader

	mu    sync.Mutex
	close func() // guarded by mu: ends the command at once
}

// Parameters returns the descriptions of the settings.
func (d *destination) Parameters() sdk.Parameters { return sdk.Described(d.settings, descriptions) }

// Configure validates and stores the settings.
func (d *destination) Configure(_ context.Context, settings map[string]string) (err error) {
	if err = sdk.Decode(settings, &d.settings); err != nil {
		return err
	}
	d.args, err = d.settings.args()
	return err
}

// Open starts the command.
func (d *destination) Open(ctx context.Context) error {
	d.log = sdk.Logger(ctx)
	d.throttle = subprocess.New(d.log)
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return d.start()
}

func (d *destination) start() (err error) {
	cmd := newCommand(d.ctx, d.args, d.env, d.log, d.throttle)
	end := d.cancel
	if d.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if d.settings.Confirm {
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		d.stdout = bufio.NewReader(stdout)
		end = func() { d.cancel(); _ = stdout.Close() }
	} else {
		cmd.Stdout = &logWriter{log: d.log, throttle: d.throttle}
	}
	if err := subprocess.Start(cmd); err != nil {
		return fmt.Errorf("cannot start command: %w", err)
	}
	d.cmd = cmd
	d.mu.Lock()
	defer d.mu.Unlock()
	d.close = end
	return nil
}

// endNow ends the command at once, and unblocks the call that waits for it.
func (d *destination) endNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.close != nil {
		d.close()
	}
}

// Write writes the records. A command that ends is restarted and receives the unfinished records again.
func (d *destination) Write(ctx context.Context, records []record.Record) (int, error) {
	defer context.AfterFunc(ctx, d.endNow)()
	lines, refused := d.lines(ctx, records)
	done := 0
	var pause time.Duration
	for done < len(lines) {
		n, err := d.try(lines[done:])
		done += n
		if err == nil {
			continue
		}
		if r := (*refusal)(nil); errors.As(err, &r) {
			return done, err
		}
		err = errors.Join(err, d.end())
		if d.settings.Restart == "never" {
			return done, fmt.Errorf("cannot write to the command: %w", err)
		}
		d.log.Warn("command has ended and is run again", "err", err)
		if pause = d.settings.pause(ctx, pause, n > 0); ctx.Err() != nil {
			return done, ctx.Err()
		}
	}
	return done, refused
}

// lines formats the records up to the first one that has no valid line, and returns its error.
func (d *destination) lines(ctx context.Context, records []record.Record) ([][]byte, error) {
	format, lines := sdk.RecordFormat(ctx), make([][]byte, 0, len(records))
	for i := range records {
		line, err := format(nil, &records[i])
		if err == nil && bytes.IndexByte(line, '\n') >= 0 {
			err = errors.New("its format has more than one line")
		}
		if err != nil {
			return lines, fmt.Errorf("cannot write the record: %w", err)
		}
		lines = append(lines, append(line, '\n'))
	}
	return lines, nil
}

// refusal is the reason for which the command refuses a record.
type refusal struct{ text string }

func (r *refusal) Error() string { return "the command refuses the record: " + r.text }

// try writes the lines and returns the number of lines done. With confirmations it writes one line at a time, so that
// the command has no line after a refused one.
func (d *destination) try(lines [][]byte) (int, error) {
	if d.cmd == nil {
		if err := d.start(); err != nil {
			return 0, err
		}
	}
	if !d.settings.Confirm {
		if _, err := d.stdin.Write(bytes.Join(lines, nil)); err != nil {
			return 0, err
		}
		return len(lines), nil
	}
	for i, line := range lines {
		if _, err := d.stdin.Write(line); err != nil {
			return i, err
		}
		answer, err := readLine(d.stdout)
		if err != nil && (len(answer) == 0 || !errors.Is(err, io.EOF)) {
			return i, fmt.Errorf("no confirmation: %w", err)
		}
		if text := string(bytes.TrimSpace(answer)); text != "ok" {
			return i, &refusal{text}
		}
	}
	return len(lines), nil
}

// end closes the standard input of the command and waits for it to exit.
func (d *destination) end() error {
	if d.cmd == nil {
		return nil
	}
	cmd := d.cmd
	d.cmd = nil
	_ = d.stdin.Close()
	return subprocess.Wait(cmd)
}

// Teardown lets the command finish its input and waits for it to exit.
func (d *destination) Teardown(ctx context.Context) error {
	if d.cancel == nil {
		return nil
	}
	defer d.throttle.Report()
	defer d.cancel()
	defer context.AfterFunc(ctx, d.endNow)()
	if err := d.end(); err != nil {
		return fmt.Errorf("cannot end the command: %w", err)
	}
	return nil
}
