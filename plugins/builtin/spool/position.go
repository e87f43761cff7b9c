package spool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// place is where reading stands. Its text form, the position of a record, is
//
//	id ":" next
//
// in hexadecimal: the id of the log, and the offset behind the record.
type place struct {
	id   uint64
	next uint64
}

func parsePosition(pos record.Position) (p place, err error) {
	id, next, ok := strings.Cut(string(pos), ":")
	if ok {
		p.id, err = strconv.ParseUint(id, 16, 64)
	}
	if ok && err == nil {
		p.next, err = strconv.ParseUint(next, 16, 64)
	}
	if !ok || err != nil {
		return p, fmt.Errorf("cannot resume at position %q: not a position of this source", pos)
	}
	return p, nil
}

func (p place) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, p.id, 16)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, p.next, 16)
}
