package journald

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/subprocess"
)

const program = "journalctl"

func findProgram() error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("cannot read the journal: %w: install systemd", err)
	}
	return nil
}

// journal is a running journalctl, which prints entries in the export format: see "Journal Export
// Formats" of systemd.
type journal struct {
	cmd    *exec.Cmd
	r      *bufio.Reader
	errors *lastLines
	kill   func()
	broken error // why no more entries can be read
}

func start(args []string, log *slog.Logger) (*journal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	j := &journal{cmd: command(ctx, args), errors: &lastLines{log: log}, kill: cancel}
	j.cmd.Stderr = j.errors
	out, err := j.cmd.StdoutPipe()
	if err == nil {
		err = subprocess.Start(j.cmd)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot run %s: %w", program, err)
	}
	j.r = bufio.NewReaderSize(out, 256<<10)
	return j, nil
}

func command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append([]string{"--output=export", "--quiet", "--no-pager"}, args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// close ends journalctl.
func (j *journal) close() {
	j.kill()
	_ = subprocess.Wait(j.cmd)
}

const mostEntries = 500

// entries waits for an entry, and returns it with those that are there. An error comes behind them.
func (j *journal) entries() (all []entry, err error) {
	if j.broken != nil {
		return nil, j.broken
	}
	for len(all) < mostEntries && (len(all) == 0 || j.more()) {
		e, err := readEntry(j.r)
		if err != nil {
			j.broken = j.failed(err)
			break
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, j.broken
	}
	return all, nil
}

// damagedError is that what is printed of an entry is no form of one.
type damagedError struct {
	error
	cursor string
}

// more reports whether something was printed that was not read.
func (j *journal) more() bool { return j.r.Buffered() > 0 }

// failed says why there are no more entries.
func (j *journal) failed(err error) error {
	if errors.As(err, new(damagedError)) {
		return err
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot read what %s prints: %w", program, err)
	}
	err = subprocess.Wait(j.cmd)
	if text := j.errors.text(); text != "" {
		return fmt.Errorf("%s has ended: %s", program, text)
	}
	return fmt.Errorf("%s has ended: %w", program, errors.Join(err, io.EOF))
}

// at returns the cursor of the entry at a cursor, or of the first one behind it; empty when there
// is none.
func (s *settings) at(ctx context.Context, cursor string) (string, error) {
	cmd := command(ctx, append(s.where(), "--cursor="+cursor, "--lines=1"))
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	err := subprocess.Run(cmd)
	if text := strings.TrimSpace(failure.String()); err != nil && text != "" {
		return "", fmt.Errorf("%s has failed: %s", program, text)
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		return "", nil
	}
	e, err := readEntry(bufio.NewReader(&out))
	return e.get("__CURSOR"), err
}

// entry has the values of each field.
type entry map[string][][]byte

func (e entry) get(name string) string {
	if len(e[name]) == 0 {
		return ""
	}
	return string(e[name][0])
}

// time returns when the entry was received.
func (e entry) time() time.Time {
	micro, _ := strconv.ParseInt(e.get("__REALTIME_TIMESTAMP"), 10, 64)
	return time.UnixMicro(micro)
}

const (
	maxField = 16 << 20 // bytes of a field that is read, as of a line of a file
	// maxPrinted is more bytes than journald keeps of a field: a length above it is none.
	maxPrinted = 1 << 30
)

// left is the name under which an entry has the names of fields that are left out. No field of a journal has it.
const left = "__left out"

// readEntry reads lines NAME=VALUE up to an empty line. A value that has other than text in it
// comes in lines of its own, behind its length.
func readEntry(r *bufio.Reader) (entry, error) {
	e := entry{}
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		line = line[:len(line)-1]
		if len(line) == 0 {
			if len(e) > 0 {
				return e, nil
			}
			continue
		}
		name, value, text := bytes.Cut(line, []byte("="))
		if !text {
			value, err = readBinary(r)
			cursor := e.get("__CURSOR")
			switch {
			case errors.Is(err, errLarge):
				e[left] = append(e[left], name)
				continue
			case errors.Is(err, errDamaged) && cursor != "":
				return nil, damagedError{fmt.Errorf("field %.64q: %w", name, err), cursor}
			case err != nil:
				return nil, err
			}
		}
		e[string(name)] = append(e[string(name)], value)
	}
}

var (
	errLarge   = fmt.Errorf("it has more than %d MiB", maxField>>20)
	errDamaged = errors.New("it does not end where it should")
)

// readBinary reads a value behind its length.
func readBinary(r *bufio.Reader) ([]byte, error) {
	var length uint64
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, err
	}
	if length > maxPrinted {
		return nil, errDamaged
	}
	var value []byte
	var err error
	if length > maxField {
		_, err = r.Discard(int(length))
	} else {
		value = make([]byte, length)
		_, err = io.ReadFull(r, value)
	}
	if err != nil {
		return nil, err
	}
	switch c, err := r.ReadByte(); {
	case err != nil:
		return nil, err
	case c != '\n':
		return nil, errDamaged
	case length > maxField:
		return nil, errLarge
	}
	return value, nil
}

// lastLines logs what is written, and keeps the end of it.
type lastLines struct {
	log *slog.Logger

	mu  sync.Mutex
	buf []byte // guarded by mu
}

// Write takes everything.
func (l *lastLines) Write(p []byte) (int, error) {
	const most = 1 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	l.buf = l.buf[max(0, len(l.buf)-most):]
	l.log.Warn(program+" says", "text", strings.TrimSpace(string(p)))
	return len(p), nil
}

func (l *lastLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(l.buf), "\uFFFD"))
}
