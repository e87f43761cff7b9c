package prove

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Flow counts the records of a source that arrived at a destination.
type Flow struct {
	Pipeline    string `json:"pipeline"`
	Source      string `json:"source"`
	Destination string `json:"destination"`

	Arrived   int64 `json:"arrived"`   // distinct records
	Acked     int64 `json:"acked"`     // that were acknowledged to the source
	Lost      int64 `json:"lost"`      // missing records that were acknowledged, or followed by one that arrived
	Reordered int64 `json:"reordered"` // that arrived after a later one
	Doubled   int64 `json:"doubled"`   // repeats
	Rewinds   int64 `json:"rewinds"`   // number of times that the stream went back
	Longest   int64 `json:"longest"`   // most records repeated by one rewind

	missing map[int64]bool
	last    int64 // the greatest number
	before  int64 // the number of the last record
	run     int64 // repeats since the stream went back
}

// objections is the suffix of the file in which a source records broken promises.
const objections = ".objections"

// take records the next number.
func (f *Flow) take(n int64) {
	switch {
	case n > f.last:
		for lost := f.last + 1; lost < n; lost++ {
			if f.missing == nil {
				f.missing = map[int64]bool{}
			}
			f.missing[lost] = true
		}
		f.last, f.run = n, 0
		f.Arrived++
	case f.missing[n]:
		delete(f.missing, n)
		f.Arrived++
		f.Reordered++
	default:
		f.Doubled++
		if n != f.before+1 || f.run == 0 {
			f.Rewinds, f.run = f.Rewinds+1, 0
		}
		f.run++
		f.Longest = max(f.Longest, f.run)
	}
	f.before = n
}

// finish counts lost records.
func (f *Flow) finish() { f.Lost = int64(len(f.missing)) + max(0, f.Acked-f.last) }

// readAcked returns the number of the last record acknowledged to a source.
func readAcked(ledger string) (int64, error) {
	text, err := os.ReadFile(ledger)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the ledger: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read the ledger: %w", err)
	}
	return n, nil
}

// ledgers are the files of the stand-ins.
type ledgers struct{ dir string }

func (l ledgers) path(qualifiedID string) string {
	return filepath.Join(l.dir, texts.PathElement(qualifiedID))
}

// audit returns the records that arrived, and the objections of sources.
func (l ledgers) audit(flows []Flow) (audited []Flow, objected []string, err error) {
	for _, f := range flows {
		if f.Acked, err = readAcked(l.path(f.Pipeline + ":" + f.Source)); err != nil {
			return nil, nil, err
		}
		content, err := os.ReadFile(l.path(f.Pipeline + ":" + f.Destination))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("cannot read the ledger: %w", err)
		}
		if err := f.read(content); err != nil {
			return nil, nil, err
		}
		f.finish()
		audited = append(audited, f)
	}
	found, err := filepath.Glob(filepath.Join(l.dir, "*"+objections))
	for _, path := range found {
		text, rerr := os.ReadFile(path)
		err = errors.Join(err, rerr)
		objected = append(objected, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	return audited, objected, err
}

// read adds the lines of a ledger that come from the source of f. The last line may be torn.
func (f *Flow) read(content []byte) error {
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		source, number, _ := strings.Cut(lines.Text(), " ")
		if source != f.Pipeline+":"+f.Source {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("the ledger of destination %s has the line %q, which no source sent", f.Destination,
				lines.Text())
		}
		f.take(n)
	}
	return lines.Err()
}

// size returns the size in bytes of the ledger of a connector.
func (l ledgers) size(qualifiedID string) int64 {
	info, err := os.Stat(l.path(qualifiedID))
	if err != nil {
		return 0
	}
	return info.Size()
}
