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
}

func start(args []string, log *slog.Logger) (*journal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	j := &journal{cmd: command(ctx, args), errors: &lastLines{log: log}, kill: cancel}
	j.cmd.Stderr = j.errors
	out, err := j.cmd.StdoutPipe()
	if err == nil {
		err = j.cmd.Start()
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
	_ = j.cmd.Wait()
}

const mostEntries = 500

// entries waits for an entry, and returns it with those that are there.
func (j *journal) entries() (all []entry, err error) {
	for len(all) < mostEntries && (len(all) == 0 || j.more()) {
		e, err := readEntry(j.r)
		if err != nil {
			return all, j.failed(err)
		}
		all = append(all, e)
	}
	return all, nil
}

// more reports whether something was printed that was not read.
func (j *journal) more() bool { return j.r.Buffered() > 0 }

// failed says why there are no more entries.
func (j *journal) failed(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot read what %s prints: %w", program, err)
	}
	err = j.cmd.Wait()
	if text := j.errors.text(); text != "" {
		return fmt.Errorf("%s has ended: %s", program, text)
	}
	return fmt.Errorf("%s has ended: %w", program, errors.Join(err, io.EOF))
}

// at returns the cursor of the entry at a cursor, or of the first one behind it; empty when there
// is none.
func (s *settings) at(ctx context.Context, cursor string) (string, error) {
	cmd := command(ctx, append(s.where(), "--cursor="+cursor, "--lines=1"))
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if text := strings.TrimSpace(failure.String()); err != nil && text != "" {
		return "", fmt.Errorf("%s has failed: %s", program, text)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return "", nil
	}
	e, err := readEntry(bufio.NewReader(bytes.NewReader(out)))
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

// maxField is more bytes than journald keeps of a field.
const maxField = 768 << 20

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
			if value, err = readBinary(r); err != nil {
				return nil, err
			}
		}
		e[string(name)] = append(e[string(name)], value)
	}
}

func readBinary(r *bufio.Reader) ([]byte, error) {
	var length uint64
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, err
	}
	if length > maxField {
		return nil, fmt.Errorf("a field has %d bytes", length)
	}
	value := make([]byte, length)
	if _, err := io.ReadFull(r, value); err != nil {
		return nil, err
	}
	if c, err := r.ReadByte(); err != nil || c != '\n' {
		return nil, errors.Join(errors.New("a field does not end where it should"), err)
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
