package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
)

// output is a list of files with one record per line.
type output []string

// outputs are the files that the first n pipelines write.
func (b *bench) outputs(n int) (o output) {
	for i := range n {
		o = append(o, b.path(outputOf(i)))
	}
	return o
}

// size returns the total size of the files.
func (o output) size() (total int64) {
	for _, path := range o {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	return total
}

// started reports whether no file is empty.
func (o output) started() bool {
	return !slices.ContainsFunc(o, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Size() == 0
	})
}

// lines returns the total number of lines in the files.
func (o output) lines() (lines int, err error) {
	for _, path := range o {
		n, err := countFile(path)
		if err != nil {
			return 0, err
		}
		lines += n
	}
	return lines, nil
}

// countable returns the number of lines in the files that can be read.
func (o output) countable() (lines int) {
	for _, path := range o {
		n, _ := countFile(path)
		lines += n
	}
	return lines
}

func countFile(path string) (lines int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// writeLines writes n lines of 140 bytes.
func writeLines(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for i := range n {
		start := len(buf)
		buf = fmt.Appendf(buf, `2026-01-02T03:04:05Z host-%04d app[%d]: request %d took %d ms `, i%1000, i%99, i, i%777)
		for len(buf)-start < 139 {
			buf = append(buf, 'x')
		}
		buf = append(buf, '\n')
		if len(buf) > 1<<20 || i == n-1 {
			if _, err := f.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}
