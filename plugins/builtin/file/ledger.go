package file

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// inLedger begins a position that has the place in one file only: the places in the others are in the ledger.
const inLedger = "@ "

const (
	ledgerName = "places"
	ledgerFrom = 8 << 10 // size of positions from which on there is a ledger
)

var ledgerKeep int64 = 1 << 20 // size up to which the ledger is not rewritten

// ledger keeps the places in many files. It is a list of places, each on a line with a checksum; the last one of a file
// counts. It has the places of acknowledged records only. A kill may lose the last ones: then their records are read
// again.
type ledger struct {
	state stateDir

	mu       sync.Mutex
	file     *os.File                   // guarded by mu; nil after close
	size     int64                      // guarded by mu: of file
	live     int64                      // guarded by mu: size of file when it was written anew
	places   map[string]record.Position // guarded by mu: text of the places by escaped path
	followed map[string]bool            // guarded by mu: escaped paths whose places are needed
}

// ledger returns the ledger with these places, or nil if positions of this size suffice.
func (d stateDir) ledger(size int, places map[string]place) (*ledger, error) {
	if d.dir == "" || size < ledgerFrom {
		return nil, nil
	}
	l := &ledger{state: d, places: map[string]record.Position{}}
	for path, p := range places {
		l.places[escapedPath(path)] = p.append(nil)
	}
	if err := l.rewrite(); err != nil {
		return nil, fmt.Errorf("cannot keep the places in the files: %w", err)
	}
	return l, nil
}

// with returns the places in the ledger, and these, which are newer.
func (d stateDir) with(places map[string]place, log *slog.Logger) (map[string]place, error) {
	text, err := os.ReadFile(filepath.Join(d.dir, ledgerName))
	if d.dir == "" || err != nil {
		log.Warn("the places in the other files are not known here: these files are read from their beginnings",
			"err", err)
		return places, nil
	}
	all := map[string]place{}
	for line := range bytes.Lines(text) {
		entry, ok := checked(line)
		if !ok {
			break // the end was being written when the agent was killed
		}
		one, _, err := parsePlaces(entry)
		if err != nil {
			return nil, err
		}
		for path, p := range one {
			all[path] = p
		}
	}
	for path, p := range places {
		all[path] = p
	}
	return all, nil
}

// appendLine appends a line of the ledger.
func appendLine(dst []byte, path string, place record.Position) []byte {
	at := len(dst)
	dst = append(append(append(dst, path...), '='), place...)
	sum := crc32.Checksum(dst[at:], castagnoli)
	return append(strconv.AppendUint(append(dst, ' '), uint64(sum), 16), '\n')
}

// checked returns a line of the ledger without its checksum, if that is right.
func checked(line []byte) (record.Position, bool) {
	i := bytes.LastIndexByte(line, ' ')
	if i < 0 || line[len(line)-1] != '\n' {
		return nil, false
	}
	sum, err := strconv.ParseUint(string(line[i+1:len(line)-1]), 16, 32)
	return line[:i], err == nil && uint32(sum) == crc32.Checksum(line[:i], castagnoli)
}

// acked adds the places of acknowledged records.
func (l *ledger) acked(positions []record.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	latest := map[string]record.Position{}
	for _, p := range positions {
		text, ok := bytes.CutPrefix(p, []byte(inLedger))
		if i := bytes.LastIndexByte(text, '='); ok && i > 0 {
			latest[string(text[:i])] = text[i+1:]
		}
	}
	var lines []byte
	for path, p := range latest {
		l.places[path] = bytes.Clone(p)
		lines = appendLine(lines, path, p)
	}
	n, err := l.file.Write(lines)
	if err != nil {
		return fmt.Errorf("cannot keep the places in the files: %w", err)
	}
	if l.size += int64(n); l.size > ledgerKeep && l.size > 4*l.live {
		return l.rewrite()
	}
	return nil
}

// keep tells which files are followed. The places in others are dropped when the ledger is rewritten.
func (l *ledger) keep(files map[string]*single) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followed = make(map[string]bool, len(files))
	for path := range files {
		l.followed[escapedPath(path)] = true
	}
}

// rewrite replaces the ledger by one with a line for each file. The caller holds mu, or is the only one.
func (l *ledger) rewrite() error {
	var text []byte
	for path, p := range l.places {
		if l.followed != nil && !l.followed[path] {
			delete(l.places, path)
			continue
		}
		text = appendLine(text, path, p)
	}
	if err := l.state.write(ledgerName, text); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(l.state.dir, ledgerName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // it was replaced
	}
	l.file, l.size, l.live = f, int64(len(text)), int64(len(text))
	return nil
}

func (l *ledger) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if l.file = nil; f == nil {
		return nil
	}
	err := sdk.SyncFile(f)
	if failed := f.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("cannot keep the places in the files: %w", err)
	}
	return nil
}
