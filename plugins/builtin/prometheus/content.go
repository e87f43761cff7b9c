package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/record"
)

// content creates the records of a request, one for each sample, histogram, exemplar and, in 1.0, metadata of a metric.
// An element that cannot become a record is rejected. It decodes the body as records are read: a decoded request would
// take many times the memory.
type content struct {
	v2       bool
	metadata record.Metadata // of all records
	body     []byte          // fields that are not read yet
	left     int             // elements that are not read yet
	symbols  []string
	count    int               // symbols
	texts    map[string]string // of labels in 1.0, to keep repeated ones once
	series   *series           // whose elements are read; nil: the next one of body

	written  [3]int // samples, histograms and exemplars that became records
	rejected int
	reason   error // of the first rejected element
}

// series is the content of a message TimeSeries.
type series struct {
	rest   []byte // fields that are not read yet
	err    error  // why its elements are rejected
	name   string
	labels []pair
	kind   uint64 // index in types
	help   string
	unit   string
	start  int64 // milliseconds since 1970; 0 for none
}

// symbolMemory is the memory of a text without its bytes.
const symbolMemory = 16

// newContent returns the content of a body, and the memory that the symbols will take. It checks that the body is a
// sequence of fields; readSymbols must follow.
func newContent(body []byte, v2 bool, metadata record.Metadata) (c *content, memory int, err error) {
	c = &content{v2: v2, metadata: metadata, body: body, texts: map[string]string{}}
	err = eachField(body, func(f *field) error {
		switch {
		case v2 && f.number == v2Symbols:
			c.count++
			memory += symbolMemory + len(f.bytes)
			return f.wants(protowire.BytesType)
		case v2 && f.number == v2Series, !v2 && f.number == v1Series:
			if err := f.wants(protowire.BytesType); err != nil {
				return err
			}
			return eachField(f.bytes, func(f *field) error {
				if c.isElement(f.number) {
					c.left++
					return f.wants(protowire.BytesType)
				}
				return nil
			})
		case !v2 && f.number == v1Metadata:
			c.left++
			return f.wants(protowire.BytesType)
		}
		return nil
	})
	return c, memory, err
}

// isElement reports whether the field of a series becomes a record.
func (c *content) isElement(number protowire.Number) bool {
	// 1.0 and 2.0 number histograms and exemplars differently, but use the same numbers.
	return number == seriesSamples || number == v1SeriesExemplars || number == v1SeriesHistogram
}

// readSymbols reads the symbols of a request of 2.0.
func (c *content) readSymbols() error {
	if c.count == 0 {
		return nil
	}
	c.symbols = make([]string, 0, c.count)
	return eachField(c.body, func(f *field) error {
		if f.number == v2Symbols {
			c.symbols = append(c.symbols, string(f.bytes))
		}
		return nil
	})
}

// Left implements common.Content.
func (c *content) Left() int { return c.left }

// Next implements common.Content.
func (c *content) Next(n int) (records []record.Record, err error) {
	n = min(n, c.left)
	fields := len(c.metadata) + 2
	arena := record.NewArena(n, fields, len("1700000000000000000"))
	records = make([]record.Record, 0, n)
	for range n {
		e, err := c.next()
		if err != nil {
			return nil, err
		}
		c.left--
		if e.err != nil {
			c.rejected++
			if c.reason == nil {
				c.reason = e.err
			}
			continue
		}
		m := append(arena.Metadata(fields), c.metadata...)
		m.Add(keyKind, e.kind)
		if e.hasTime {
			m.Add(record.KeyCreatedAt, arena.Int(e.at))
		}
		m.Sort()
		records = append(records, record.Record{Operation: record.OperationCreate, Metadata: m,
			After: record.Structured(e.payload)})
		switch e.kind {
		case kindSample:
			c.written[0]++
		case kindHistogram:
			c.written[1]++
		case kindExemplar:
			c.written[2]++
		}
	}
	return records, nil
}

// element is a sample, or what else becomes a record.
type element struct {
	kind    string
	payload map[string]any
	at      int64 // Unix nanoseconds
	hasTime bool
	err     error // why it is rejected
}

var errNoElement = errors.New("a request has fewer elements than were counted")

// next returns the next element.
func (c *content) next() (*element, error) {
	for {
		for c.series != nil && len(c.series.rest) > 0 {
			f, rest, err := next(c.series.rest)
			if err != nil {
				return nil, err
			}
			c.series.rest = rest
			if c.isElement(f.number) {
				return c.element(&f), nil
			}
		}
		c.series = nil
		if len(c.body) == 0 {
			return nil, errNoElement
		}
		f, rest, err := next(c.body)
		if err != nil {
			return nil, err
		}
		c.body = rest
		switch {
		case c.v2 && f.number == v2Series, !c.v2 && f.number == v1Series:
			c.series = c.readSeries(f.bytes)
		case !c.v2 && f.number == v1Metadata:
			return c.familyElement(f.bytes), nil
		}
	}
}

// readSeries reads all of a series but its elements.
func (c *content) readSeries(b []byte) *series {
	s := &series{rest: b}
	size := 0
	add := func(name, value string) {
		if size += len(name) + len(value); name == nameLabel {
			s.name = value
			return
		}
		s.labels = append(s.labels, pair{name, value})
	}
	var refs []uint64
	s.err = eachField(b, func(f *field) error {
		switch {
		case f.number == seriesLabels && c.v2:
			return f.packed(protowire.VarintType, func(n uint64) error {
				refs = append(refs, n)
				if size += 2; size > maxLabels {
					return fmt.Errorf("a series has labels of more than %d bytes", maxLabels)
				}
				return nil
			})
		case f.number == seriesLabels:
			if err := f.wants(protowire.BytesType); err != nil {
				return err
			}
			name, value, err := label(f.bytes)
			if add(c.keep(name), c.keep(value)); err == nil && size > maxLabels {
				err = fmt.Errorf("a series has labels of more than %d bytes", maxLabels)
			}
			return err
		case f.number == v2SeriesMetadata && c.v2:
			return c.readMetadata(s, f)
		case f.number == v2SeriesCreated && c.v2:
			s.start = int64(f.n)
			return f.wants(protowire.VarintType)
		}
		return nil
	})
	if s.err == nil && c.v2 {
		s.err = c.resolve(refs, add, &size)
	}
	if s.err == nil {
		s.err = s.check()
	}
	return s
}

// resolve adds the labels to which numbers of symbols refer.
func (c *content) resolve(refs []uint64, add func(name, value string), size *int) error {
	if len(refs)%2 != 0 {
		return errors.New("a label of a series has no value")
	}
	for i := 0; i < len(refs); i += 2 {
		name, err := c.symbol(refs[i])
		if err != nil {
			return err
		}
		value, err := c.symbol(refs[i+1])
		if err != nil {
			return err
		}
		if add(name, value); *size > maxLabels {
			return fmt.Errorf("a series has labels of more than %d bytes", maxLabels)
		}
	}
	return nil
}

func (c *content) symbol(n uint64) (string, error) {
	if n >= uint64(len(c.symbols)) {
		return "", fmt.Errorf("it refers to the symbol %d of %d", n, len(c.symbols))
	}
	return c.symbols[n], nil
}

func (c *content) readMetadata(s *series, f *field) error {
	if err := f.wants(protowire.BytesType); err != nil {
		return err
	}
	return eachField(f.bytes, func(f *field) (err error) {
		switch f.number {
		case v2MetadataType:
			s.kind = f.n
		case v2MetadataHelp:
			s.help, err = c.symbol(f.n)
		case v2MetadataUnit:
			s.unit, err = c.symbol(f.n)
		}
		return err
	})
}

// check returns why the elements of a series are rejected. Names may be any text, as in Prometheus 3.
func (s *series) check() error {
	if s.name == "" {
		return fmt.Errorf("a series has no label %s", nameLabel)
	}
	seen := make(map[string]bool, len(s.labels))
	for _, l := range append([]pair{{nameLabel, s.name}, {"help", s.help}, {"unit", s.unit}}, s.labels...) {
		switch {
		case l.name == "":
			return fmt.Errorf("a label of the series %.64q has no name", s.name)
		case !utf8.ValidString(l.name), !utf8.ValidString(l.value):
			return fmt.Errorf("the label %.64q of the series %.64q is not UTF-8 text", l.name, s.name)
		}
	}
	for _, l := range s.labels {
		if seen[l.name] {
			return fmt.Errorf("the series %.64q has the label %.64q twice", s.name, l.name)
		}
		seen[l.name] = true
	}
	return nil
}

const maxTexts = 4096 // kept texts of a request of 1.0

// keep returns b as a string, the same one for equal texts.
func (c *content) keep(b []byte) string {
	if s, ok := c.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(c.texts) < maxTexts {
		c.texts[s] = s
	}
	return s
}

// payload returns a new payload with name, labels and metadata of the series.
func (s *series) payload() map[string]any {
	labels := make(map[string]any, len(s.labels))
	for _, l := range s.labels {
		labels[l.name] = l.value
	}
	p := map[string]any{memberName: s.name, memberLabels: labels}
	addMetadata(p, s.kind, s.help, s.unit)
	return p
}

// addMetadata adds type, help and unit of a metric to a payload, where they are known.
func addMetadata(p map[string]any, kind uint64, help, unit string) {
	if kind > 0 && kind < uint64(len(types)) {
		p[memberType] = types[kind]
	}
	if help != "" {
		p[memberHelp] = help
	}
	if unit != "" {
		p[memberUnit] = unit
	}
}

// element returns the element of a field of the series.
func (c *content) element(f *field) *element {
	s := c.series
	if s.err != nil {
		return &element{err: s.err}
	}
	e := &element{payload: s.payload()}
	at, start := int64(0), s.start
	switch {
	case f.number == seriesSamples:
		e.kind, e.hasTime = kindSample, true
		bits := uint64(0)
		e.err = eachField(f.bytes, func(f *field) error {
			switch f.number {
			case sampleValue:
				bits = f.n
				return f.wants(protowire.Fixed64Type)
			case sampleTime:
				at = int64(f.n)
				return f.wants(protowire.VarintType)
			case sampleStart:
				start = int64(f.n)
				return f.wants(protowire.VarintType)
			}
			return nil
		})
		e.payload[memberValue] = valueOf(bits)
	case (f.number == v2SeriesHistogram) == c.v2:
		var own int64
		var object map[string]any
		e.kind, e.hasTime = kindHistogram, true
		if object, at, own, e.err = decodeHistogram(f.bytes); own != 0 {
			start = own
		}
		e.payload[memberHistogram] = object
	default:
		e.kind, start = kindExemplar, 0
		at, e.err = c.exemplar(e.payload, f.bytes)
		e.hasTime = at != 0
	}
	if start != 0 {
		e.payload[memberStart] = start
	}
	var ok bool
	if e.at, ok = nanoseconds(at); !ok && e.err == nil {
		e.err = fmt.Errorf("its time %d ms is out of range", at)
	}
	if e.err != nil {
		e.err = fmt.Errorf("a %s of the series %.64q is wrong: %w", e.kind, s.name, e.err)
	}
	return e
}

// exemplar adds an exemplar to a payload, and returns its time; 0 if it has none.
func (c *content) exemplar(p map[string]any, b []byte) (at int64, err error) {
	labels := map[string]any{}
	size := 0
	add := func(name, value string) { size += len(name) + len(value); labels[name] = value }
	var refs []uint64
	bits := uint64(0)
	err = eachField(b, func(f *field) error {
		switch {
		case f.number == exemplarLabels && c.v2:
			return f.packed(protowire.VarintType, func(n uint64) error { refs = append(refs, n); return nil })
		case f.number == exemplarLabels:
			if err := f.wants(protowire.BytesType); err != nil {
				return err
			}
			name, value, err := label(f.bytes)
			add(c.keep(name), c.keep(value))
			return err
		case f.number == exemplarValue:
			bits = f.n
			return f.wants(protowire.Fixed64Type)
		case f.number == exemplarTime:
			at = int64(f.n)
			return f.wants(protowire.VarintType)
		}
		return nil
	})
	if err == nil && c.v2 {
		err = c.resolve(refs, add, &size)
	}
	for name, value := range labels {
		if text, _ := value.(string); err == nil && !(utf8.ValidString(name) && utf8.ValidString(text) && name != "") {
			err = errors.New("a label is not UTF-8 text, or has no name")
		}
	}
	if err == nil && size > maxLabels {
		err = fmt.Errorf("it has labels of more than %d bytes", maxLabels)
	}
	p[memberExemplar] = map[string]any{memberLabels: labels, memberValue: valueOf(bits)}
	return at, err
}

// familyElement returns the metadata of a metric in a request of 1.0.
func (c *content) familyElement(b []byte) *element {
	e := &element{kind: kindMetadata, payload: map[string]any{}}
	var kind uint64
	var name, help, unit []byte
	e.err = eachField(b, func(f *field) error {
		switch f.number {
		case v1MetadataType:
			kind = f.n
			return f.wants(protowire.VarintType)
		case v1MetadataName:
			name = f.bytes
		case v1MetadataHelp:
			help = f.bytes
		case v1MetadataUnit:
			unit = f.bytes
		default:
			return nil
		}
		return f.wants(protowire.BytesType)
	})
	switch all := bytes.Join([][]byte{name, help, unit}, nil); {
	case e.err != nil:
		e.err = fmt.Errorf("the metadata of a metric are wrong: %w", e.err)
	case len(name) == 0:
		e.err = errors.New("the metadata of a metric have no name")
	case len(all) > maxLabels:
		e.err = fmt.Errorf("the metadata of the metric %.64q have more than %d bytes", name, maxLabels)
	case !utf8.Valid(name) || !utf8.Valid(help) || !utf8.Valid(unit):
		e.err = fmt.Errorf("the metadata of the metric %.64q are not UTF-8 text", name)
	}
	e.payload[memberName] = string(name)
	addMetadata(e.payload, min(kind, math.MaxInt32), string(help), string(unit))
	return e
}
