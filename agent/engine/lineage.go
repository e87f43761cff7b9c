package engine

import (
	"slices"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// passage records the input of each chain of processors that a batch passes, to find the record for the dead-letter
// queue. Only the last of these chains may change it.
type passage struct {
	Given   []*given   // the inputs of the chains, in order
	Settles []sdk.Held // for an emission: the records it was made from
}

// given is the input of a chain. Records that the chain split or held stay in it unchanged.
type given struct {
	Records []record.Record
	Origins []int32          // index of the input of each record, ascending; nil: one to one
	Held    []int32          // indices of the inputs with a piece that the chain held
	Keeper  map[int32]string // qualified id of the processor that split or held a record, by index of the record
}

// With returns p for a batch that was given to one more chain. p may be nil.
func (p *passage) With(g *given) *passage {
	if p == nil {
		return &passage{Given: []*given{g}}
	}
	return &passage{Given: append(slices.Clip(p.Given), g), Settles: p.Settles}
}

// find returns the index of the first piece of an input, and the number of pieces.
func (g *given) find(input int) (at, n int) {
	if g.Origins == nil {
		return input, 1
	}
	at, _ = slices.BinarySearch(g.Origins, int32(input))
	for at+n < len(g.Origins) && int(g.Origins[at+n]) == input {
		n++
	}
	return at, n
}

// Original returns the record from which an input was made: before a processor split it or held it, and after all
// processors that left it one record. It also returns the processor that split it or held it.
func (p *passage) Original(input int) (r record.Record, by string) {
	for _, g := range p.Given {
		at, n := g.find(input)
		if n != 1 {
			break
		}
		if r, by = g.Records[at], g.Keeper[int32(at)]; slices.Contains(g.Held, int32(input)) {
			break
		}
	}
	return r, by
}

// Whole reports whether an input reached the last chain in one piece, and that chain did not hold any part.
func (p *passage) Whole(input int) bool {
	return !slices.ContainsFunc(p.Given, func(g *given) bool {
		_, n := g.find(input)
		return n != 1 || slices.Contains(g.Held, int32(input))
	})
}

// composeOrigins returns the origins of the output of a chain. before are the origins of its input, after the origins
// that the chain returned.
func composeOrigins(before, after []int32) []int32 {
	switch {
	case after == nil:
		return before
	case before == nil:
		return after
	}
	composed := make([]int32, len(after))
	for i, j := range after {
		composed[i] = before[j]
	}
	return composed
}

// Filtered returns how many of n inputs are neither in flight, with these origins, nor held, nor refused. p may be
// nil.
func (p *passage) Filtered(n int, origins []int32, refused func(input int) bool) (filtered uint64) {
	if p == nil || origins == nil {
		return 0
	}
	there := make([]bool, n)
	for _, i := range origins {
		there[i] = true
	}
	for _, g := range p.Given {
		for _, i := range g.Held {
			there[i] = true
		}
	}
	for i := range there {
		if !there[i] && !refused(i) {
			filtered++
		}
	}
	return filtered
}

// made is the output of a chain for a batch.
type made struct {
	Records []record.Record
	Origins []int32 // index of the input of each record, ascending; nil: one to one
	Emitted []sdk.Emission
}

// Drop drops the pieces of these inputs. The origins are the ones that the chain returned. No other batch has the
// records, since the chain refused some.
func (m *made) Drop(inputs []int32) {
	if len(inputs) == 0 || m.Origins == nil {
		return
	}
	n := 0
	for i, origin := range m.Origins {
		if !slices.Contains(inputs, origin) {
			m.Records[n], m.Origins[n] = m.Records[i], origin
			n++
		}
	}
	clear(m.Records[n:])
	m.Records, m.Origins = m.Records[:n], m.Origins[:n]
}
