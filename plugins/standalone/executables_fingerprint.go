package standalone

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"time"
)

// writeDebounce is the time without changes after which a file counts as completely written, where the system does not
// tell whether somebody writes to it.
const writeDebounce = 300 * time.Millisecond

// digest describes the content of a file.
type digest struct {
	sum       string // SHA-256
	goProgram bool   // it is a Go program, as far as can be seen
}

// goMark begins the description of its build in every Go program.
var goMark = []byte("\xff Go buildinf:")

// digestOf reads the file at path.
func digestOf(path string) (d digest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 256<<10)
	script := false
	for kept, first := 0, true; ; first = false {
		n, err := io.ReadFull(f, buf[kept:])
		h.Write(buf[kept : kept+n])
		seen := buf[:kept+n]
		script = script || first && bytes.HasPrefix(seen, []byte("#!"))
		d.goProgram = d.goProgram || !script && bytes.Contains(seen, goMark)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			d.sum = string(h.Sum(nil))
			return d, nil
		case err != nil:
			return d, err
		}
		kept = copy(buf, seen[len(seen)-len(goMark)+1:]) // the mark may lie across two reads
	}
}
