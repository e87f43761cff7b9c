package fuel

import "errors"

var (
	errEnd         = errors.New("it ends too early")
	errNumber      = errors.New("a number is too long")
	errInstruction = errors.New("an instruction is not known")
)

// reader reads the binary format. After an error it reads zeros.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) byte() byte {
	if r.at >= len(r.b) {
		r.fail(errEnd)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.b)
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.at {
		r.fail(errEnd)
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// number reads an unsigned number of at most 32 bits.
func (r *reader) number() (n uint64) {
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if n > 1<<32-1 {
				break
			}
			return n
		}
	}
	r.fail(errNumber)
	return 0
}

// numbers skips n numbers of any kind.
func (r *reader) numbers(n int) {
	for ; n > 0 && r.err == nil; n-- {
		for r.byte() >= 0x80 {
		}
	}
}

// limits skips the limits of a table or a memory.
func (r *reader) limits() {
	if r.byte()&1 == 0 {
		r.numbers(1)
	} else {
		r.numbers(2)
	}
}
