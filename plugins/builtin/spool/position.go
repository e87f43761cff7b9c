package spool

import (
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// place is the progress of reading. Its text form, the position of a record, is
//
//	id ":" next { "," from "-" to }
//
// in hexadecimal: the id of the log, the offset after the newest read record, and the ranges of unread records before
// it, oldest first.
type place struct {
	id   uint64
	next uint64
	gaps []gap
}

// gap is a range of records, from inclusive, to exclusive.
type gap struct{ from, to uint64 }

func parsePosition(pos record.Position) (p place, err error) {
	number := func(s string) uint64 {
		n, e := strconv.ParseUint(s, 16, 64)
		if e != nil {
			err = e
		}
		return n
	}
	id, rest, ok := strings.Cut(string(pos), ":")
	next, gaps, more := strings.Cut(rest, ",")
	p.id, p.next = number(id), number(next)
	for ok && more {
		var g string
		g, gaps, more = strings.Cut(gaps, ",")
		from, to, _ := strings.Cut(g, "-")
		p.gaps = append(p.gaps, gap{number(from), number(to)})
	}
	if !ok || err != nil {
		return p, sdk.CannotResume(pos, "a position of spool")
	}
	return p, nil
}

func (p place) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, p.id, 16)
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, p.next, 16)
	for _, g := range p.gaps {
		if g.from < g.to {
			dst = append(dst, ',')
			dst = strconv.AppendUint(dst, g.from, 16)
			dst = append(dst, '-')
			dst = strconv.AppendUint(dst, g.to, 16)
		}
	}
	return dst
}

// low returns the offset before which all records are read.
func (p place) low() uint64 {
	if len(p.gaps) > 0 {
		return p.gaps[0].from
	}
	return p.next
}
