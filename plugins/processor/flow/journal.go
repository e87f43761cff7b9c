package flow

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// journal is the file in which keys survive a restart: entries of fixed length, appended
// and never changed. An entry that was torn by a crash is dropped; losing some lets a
// record through again, and loses none.
type journal struct {
	path    string
	file    *os.File
	entries int
}

const (
	entrySize  = 16 + 8 // key, Unix nanoseconds
	minCompact = 10_000 // entries that are not worth compacting
)

// openJournal opens the journal in dir and returns what is in it.
func openJournal(dir string) (*journal, []sighting, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("cannot keep what was seen: %w", err)
	}
	j := &journal{path: filepath.Join(dir, "seen")}
	var err error
	if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, nil, fmt.Errorf("cannot keep what was seen: %w", err)
	}
	known, err := j.read()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot read what was seen: %w", err), j.file.Close())
	}
	return j, known, nil
}

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
			return known, j.file.Truncate(int64(len(known) * entrySize))
		}
		if err != nil {
			return nil, err
		}
		s := sighting{at: time.Unix(0, int64(binary.BigEndian.Uint64(entry[16:])))}
		copy(s.key[:], entry[:])
		known = append(known, s)
	}
	j.entries = len(known)
	return known, nil
}

func (j *journal) append(learned []sighting) error {
	if _, err := j.file.Write(encode(learned)); err != nil {
		return fmt.Errorf("cannot keep what was seen: %w", err)
	}
	j.entries += len(learned)
	return nil
}

func encode(all []sighting) []byte {
	b := make([]byte, 0, len(all)*entrySize)
	for _, s := range all {
		b = append(b, s.key[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(s.at.UnixNano()))
	}
	return b
}

// rewrite replaces the journal by one with these entries.
func (j *journal) rewrite(all []sighting) error {
	next := j.path + ".next"
	if err := os.WriteFile(next, encode(all), 0o600); err != nil {
		return fmt.Errorf("cannot keep what was seen: %w", err)
	}
	if err := os.Rename(next, j.path); err != nil {
		return fmt.Errorf("cannot keep what was seen: %w", err)
	}
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot keep what was seen: %w", err)
	}
	err = j.file.Close()
	j.file, j.entries = file, len(all)
	return err
}

func (j *journal) close() error { return j.file.Close() }
