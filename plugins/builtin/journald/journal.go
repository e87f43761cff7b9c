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

// journal is a running journalctl. It prints entries in the format that systemd describes under "Journal Export
// Formats".
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

const maxEntries = 500

// entries waits for an entry, and returns all available entries. An error is returned after them.
func (j *journal) entries() (all []entry, err error) {
	if j.broken != nil {
		return nil, j.broken
	}
	for len(all) < maxEntries && (len(all) == 0 || j.more()) {
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

// damagedError reports output that is not a valid entry.
type damagedError struct {
	error
	cursor string
}

// more reports whether there is buffered output.
func (j *journal) more() bool { return j.r.Buffered() > 0 }

// failed returns an error that describes why there are no more entries.
func (j *journal) failed(err error) error {
	if errors.As(err, new(damagedError)) {
		return err
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot read the output of %s: %w", program, err)
	}
	err = subprocess.Wait(j.cmd)
	if text := j.errors.text(); text != "" {
		return fmt.Errorf("%s has ended: %s", program, text)
	}
	return fmt.Errorf("%s has ended: %w", program, errors.Join(err, io.EOF))
}

// at returns the cursor of the entry at a cursor, or of the first one after it; empty if there is none.
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

// entry maps the names of fields to their values.
type entry map[string][][]byte

func (e entry) get(name string) string {
	if len(e[name]) == 0 {
		return ""
	}
	return string(e[name][0])
}

// time returns the time at which the journal received the entry.
func (e entry) time() time.Time {
	micro, _ := strconv.ParseInt(e.get("__REALTIME_TIMESTAMP"), 10, 64)
	return time.UnixMicro(micro)
}

const (
	maxField = 16 << 20 // maximum size of a field, the same as of a line of a file
	// maxPrinted is larger than any field in a journal, in bytes. A greater length is invalid.
	maxPrinted = 1 << 30
)

// left is the key under which an entry has the names of skipped fields. No field of a journal has this name.
const left = "__left out"

// readEntry reads lines NAME=VALUE up to an empty line. A binary value follows on separate lines, after its length.
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
	errDamaged = errors.New("its length is wrong")
)

// readBinary reads a length and a value of this length.
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

// lastLines logs the written text, and keeps its end.
type lastLines struct {
	log *slog.Logger

	mu  sync.Mutex
	buf []byte // guarded by mu
}

// Write logs p and never fails.
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
