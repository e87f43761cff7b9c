package flow

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// journal is the file that keeps keys across restarts. It holds entries of fixed length, which are appended and never
// changed. An entry torn by a crash is dropped: a lost entry lets a duplicate through, but loses no record.
//
// Appended entries are synced in the background, one sync after the other, so that a slow disk delays no record. A
// power cut loses the entries that are not synced yet.
type journal struct {
	path    string
	file    *os.File
	entries int
	syncing chan error // yields the result of the current sync; nil if there is none
	dirty   bool       // entries were appended since the current sync began
}

const (
	entrySize  = 16 + 8 // key, Unix nanoseconds
	minCompact = 10_000 // number of entries below which compaction is not worthwhile
)

// openJournal opens the journal in dir and returns its entries, oldest first.
func openJournal(dir string) (*journal, []sighting, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, cannotKeep(err)
	}
	j := &journal{path: filepath.Join(dir, "seen")}
	var err error
	if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, nil, cannotKeep(err)
	}
	known, err := j.read()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot read the saved keys: %w", err), j.file.Close())
	}
	return j, known, nil
}

func cannotKeep(err error) error { return fmt.Errorf("cannot save the keys: %w", err) }

func (j *journal) read() ([]sighting, error) {
	var known []sighting
	var entry [entrySize]byte
	in := bufio.NewReader(j.file)
	for {
		_, err := io.ReadFull(in, entry[:])
		if err == io.EOF {
			break
		}
		if err == io.ErrUnexpectedEOF {
			if err := j.file.Truncate(int64(j.entries * entrySize)); err != nil {
				return nil, err
			}
			break
		}
		if err != nil {
			return nil, err
		}
		j.entries++
		at := int64(binary.BigEndian.Uint64(entry[16:]))
		if at <= 0 {
			continue // a power cut left a hole
		}
		s := sighting{at: time.Unix(0, at)}
		copy(s.key[:], entry[:])
		known = append(known, s)
	}
	// Batches from the same source are committed in order, batches from different sources in any order.
	sort.SliceStable(known, func(i, j int) bool { return known[i].at.UnixNano() < known[j].at.UnixNano() })
	return known, nil
}

// append appends entries. It also returns the error of an earlier sync.
func (j *journal) append(learned []sighting) error {
	if _, err := j.file.Write(encode(learned)); err != nil {
		return cannotKeep(err)
	}
	j.entries += len(learned)
	j.dirty = true
	select {
	case err := <-j.syncing:
		if j.syncing = nil; err != nil {
			return cannotKeep(err)
		}
	default:
	}
	if j.syncing == nil {
		j.sync()
	}
	return nil
}

// sync starts syncing the appended entries.
func (j *journal) sync() {
	done, file := make(chan error, 1), j.file
	j.syncing, j.dirty = done, false
	go func() { done <- file.Sync() }()
}

// synced waits until all appended entries are synced.
func (j *journal) synced() error {
	for {
		if j.syncing != nil {
			err := <-j.syncing
			if j.syncing = nil; err != nil {
				return cannotKeep(err)
			}
		}
		if !j.dirty {
			return nil
		}
		j.sync()
	}
}

func encode(all []sighting) []byte {
	b := make([]byte, 0, len(all)*entrySize)
	for _, s := range all {
		b = append(b, s.key[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(s.at.UnixNano()))
	}
	return b
}

// rewrite replaces the contents of the journal with these entries.
func (j *journal) rewrite(all []sighting) error {
	if err := j.synced(); err != nil { // the old file is closed below
		return err
	}
	next, err := os.OpenFile(j.path+".next", os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return cannotKeep(err)
	}
	if _, err = next.Write(encode(all)); err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(next.Name(), j.path)
	}
	if err != nil {
		return cannotKeep(errors.Join(err, next.Close()))
	}
	err = j.file.Close()
	j.file, j.entries = next, len(all)
	return err
}

// close syncs and closes the journal.
func (j *journal) close() error {
	err := j.synced()
	if cerr := j.file.Close(); err == nil {
		err = cerr
	}
	return err
}
