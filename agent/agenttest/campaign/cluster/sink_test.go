package cluster_test

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// sink reads the output of a pipeline: lines with a number that counts up, and the epoch of the owner that wrote it.
type sink struct {
	t       *testing.T
	name    string
	path    string
	read    int64 // bytes
	rest    []byte
	lines   int
	last    int    // the largest number
	by      uint64 // epoch of the owner that wrote it first
	epoch   uint64
	repeats int
	late    int // lines that an owner wrote after a later one had begun to write
	begun   []begun
}

// begun is the place where an owner began to write.
type begun struct {
	epoch  uint64
	first  int    // the first number that it wrote
	behind int    // the largest number written before
	by     uint64 // epoch of the owner that wrote that number first
}

// follow reads the lines written since its last call. Without repeats, the numbers must count up.
func (s *sink) follow() {
	s.t.Helper()
	file, err := os.Open(s.path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	buf := make([]byte, 256<<10)
	for {
		n, err := file.ReadAt(buf, s.read)
		s.read += int64(n)
		s.rest = append(s.rest, buf[:n]...)
		if err != nil {
			break
		}
	}
	for {
		line, rest, complete := bytes.Cut(s.rest, []byte("\n"))
		if !complete {
			return
		}
		s.take(line)
		s.rest = rest
	}
}

func (s *sink) take(line []byte) {
	s.t.Helper()
	number, behind, _ := bytes.Cut(line, []byte(" "))
	n, err := strconv.Atoi(string(number))
	epoch, wrong := strconv.ParseUint(string(behind), 10, 64)
	s.lines++
	switch {
	case err != nil || wrong != nil:
		s.t.Fatalf("%s wrote the line %q", s.name, line)
	case n > s.last+1:
		s.t.Fatalf("%s wrote line %d after line %d", s.name, n, s.last)
	case epoch > s.epoch:
		s.begun = append(s.begun, begun{epoch, n, s.last, s.by})
		s.epoch = epoch
	}
	if epoch < s.epoch {
		s.late++
	}
	if n <= s.last {
		s.repeats++
	}
	if n > s.last {
		s.last, s.by = n, epoch
	}
}

// lineAt returns the number of lines 1, 2 and so on that fit into a number of bytes.
func lineAt(bytes int64) (lines int) {
	digits, power := 1, int64(10)
	for first := int64(1); ; first, power, digits = power, 10*power, digits+1 {
		size := (power - first) * int64(digits+1)
		if bytes < size {
			return lines + int(bytes)/(digits+1)
		}
		bytes, lines = bytes-size, lines+int(power-first)
	}
}
