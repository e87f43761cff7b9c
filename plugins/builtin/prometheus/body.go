package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
)

// group is the items of a series in a request.
type group struct {
	key   string
	items []encoded
}

// groups returns the items of the series of a request. Those of a series are in order of time, as the protocol demands,
// and either samples or histograms.
func (w *writer) groups(items []httpsink.Item) (all []*group) {
	index := map[groupKey]*group{}
	w.times, w.sent, w.announced = nil, w.sent[:0], w.announced[:0]
	w.counts = map[string]uint64{}
	for i := range items {
		e := decode(&items[i])
		if e.kind == encodedMetadata {
			w.announce(string(e.value))
			continue
		}
		if e.kind != encodedExemplar {
			w.counts[writtenHeader(e.kind)]++
			if series, err := w.series.Use([]byte(items[i].Key)); err == nil {
				w.sent = append(w.sent, sent{stateOf(series), e.at})
			}
		}
		key := groupKey{items[i].Key, e.kind == encodedHistogram}
		g := index[key]
		if g == nil {
			g = &group{key: items[i].Key}
			index[key] = g
			all = append(all, g)
			w.announceSeries(g.key)
		}
		g.items = append(g.items, e)
	}
	for _, g := range all {
		slices.SortStableFunc(g.items, func(a, b encoded) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
	}
	return all
}

type groupKey struct {
	series     string
	histograms bool
}

// familyOf returns the metadata of a metric, nil for none.
func (w *writer) familyOf(name string) *family {
	for _, kind := range []string{"", "histogram", "summary", "gaugehistogram"} {
		if one := w.families.Known(familyName(name, kind)); one != nil {
			if f, ok := one.State.(*family); ok && (kind == "" || types[f.kind] == kind) {
				return f
			}
		}
	}
	return nil
}

// announce adds the metadata of a metric to the body, unless the server has them.
func (w *writer) announce(name string) {
	if f := w.familyOf(name); f != nil && !f.announced && !slices.Contains(w.announced, f) {
		w.announced = append(w.announced, f)
	}
}

func (w *writer) announceSeries(key string) {
	if !w.v2 && !w.families.Empty() {
		w.announce(nameIn(key))
	}
}

// nameIn returns the name of the metric in the key of a series.
func nameIn(key string) (name string) {
	eachLabel(key, func(label, value []byte) {
		if string(label) == nameLabel {
			name = string(value)
		}
	})
	return name
}

// eachLabel calls do for the labels of a key, which this package has encoded.
func eachLabel(key string, do func(name, value []byte)) {
	_ = eachField([]byte(key), func(f *field) error {
		name, value, err := label(f.bytes)
		do(name, value)
		return err
	})
}

// Body implements httpsink.Dialect.
func (w *writer) Body(items []httpsink.Item) []byte {
	groups := w.groups(items)
	if w.v2 {
		return snappy.Encode(nil, w.body2(groups))
	}
	return snappy.Encode(nil, w.body1(groups))
}

// body1 returns a request of 1.0.
func (w *writer) body1(groups []*group) (body []byte) {
	numbers := [...]protowire.Number{encodedSample: seriesSamples, encodedHistogram: v1SeriesHistogram,
		encodedExemplar: v1SeriesExemplars}
	var series []byte
	for _, g := range groups {
		series = append(series[:0], g.key...)
		for _, e := range g.items {
			series = appendBytes(series, numbers[e.kind], e.value)
		}
		body = appendBytes(body, v1Series, series)
	}
	for _, f := range w.announced {
		m := appendVarint(nil, v1MetadataType, f.kind)
		m = appendBytes(m, v1MetadataName, f.name)
		m = appendBytes(appendBytes(m, v1MetadataHelp, f.help), v1MetadataUnit, f.unit)
		body = appendBytes(body, v1Metadata, m)
	}
	return body
}

// symbols are the texts of a request of 2.0. The first one is empty.
type symbols struct {
	numbers map[string]uint64
	encoded []byte
}

// number returns the number of a text.
func (s *symbols) number(text []byte) uint64 {
	if n, ok := s.numbers[string(text)]; ok {
		return n
	}
	n := uint64(len(s.numbers))
	s.numbers[string(text)] = n
	s.encoded = appendBytes(s.encoded, v2Symbols, text)
	return n
}

// body2 returns a request of 2.0.
func (w *writer) body2(groups []*group) []byte {
	numbers := [...]protowire.Number{encodedSample: seriesSamples, encodedHistogram: v2SeriesHistogram,
		encodedExemplar: v2SeriesExemplars}
	s := &symbols{numbers: map[string]uint64{}}
	s.number(nil)
	var all, series, refs []byte
	for _, g := range groups {
		refs = refs[:0]
		eachLabel(g.key, func(name, value []byte) {
			refs = protowire.AppendVarint(protowire.AppendVarint(refs, s.number(name)), s.number(value))
		})
		series = appendBytes(series[:0], seriesLabels, refs)
		for _, e := range g.items {
			message := e.value
			if e.kind == encodedExemplar {
				message = s.exemplar(message)
			}
			series = appendBytes(series, numbers[e.kind], message)
		}
		if f := w.familyOf(nameIn(g.key)); f != nil {
			m := appendVarint(nil, v2MetadataType, f.kind)
			m = appendVarint(m, v2MetadataHelp, s.number([]byte(f.help)))
			m = appendVarint(m, v2MetadataUnit, s.number([]byte(f.unit)))
			series = appendBytes(series, v2SeriesMetadata, m)
		}
		all = appendBytes(all, v2Series, series)
	}
	return append(s.encoded, all...)
}

// exemplar converts a message of 1.0 to 2.0.
func (s *symbols) exemplar(m []byte) []byte {
	var refs, rest []byte
	_ = eachField(m, func(f *field) error { // this package has encoded it
		switch f.number {
		case exemplarLabels:
			name, value, err := label(f.bytes)
			refs = protowire.AppendVarint(protowire.AppendVarint(refs, s.number(name)), s.number(value))
			return err
		case exemplarValue:
			rest = appendDouble(rest, exemplarValue, f.n)
		case exemplarTime:
			rest = appendVarint(rest, exemplarTime, f.n)
		}
		return nil
	})
	return append(appendBytes(nil, exemplarLabels, refs), rest...)
}

// Headers of responses of 2.0 with the number of written elements.
const (
	samplesWritten    = "X-Prometheus-Remote-Write-Samples-Written"
	histogramsWritten = "X-Prometheus-Remote-Write-Histograms-Written"
	exemplarsWritten  = "X-Prometheus-Remote-Write-Exemplars-Written"
)

func writtenHeader(kind byte) string {
	if kind == encodedHistogram {
		return histogramsWritten
	}
	return samplesWritten
}

// Outcomes implements httpsink.Dialect. With 2.0 the server must confirm the number of samples: a server of 1.0 may
// respond with success to a request that it does not understand.
func (w *writer) Outcomes(r *httpclient.Response, n int) ([]error, error) {
	outcomes, err := httpsink.Accepted(r, n)
	if err != nil {
		return nil, err
	}
	if w.v2 && len(w.counts) > 0 {
		if r.Header.Get(samplesWritten) == "" && r.Header.Get(histogramsWritten) == "" {
			return nil, errors.New("it has no header " + samplesWritten + ", so the server does not know remote write 2.0: " +
				"set protocol to 1")
		}
		for header, want := range w.counts {
			written, err := strconv.ParseUint(r.Header.Get(header), 10, 64)
			switch {
			case err == nil && written >= want:
			case n > 1:
				return nil, nil // smaller requests show which samples are missing
			default:
				return []error{fmt.Errorf("the server responded with success, but did not write the sample: its header %s is %q",
					header, r.Header.Get(header))}, nil
			}
		}
	}
	w.accept()
	return outcomes, nil
}

// accept records that the server has the last body.
func (w *writer) accept() {
	for _, one := range w.sent {
		one.state.accepted = max(one.state.accepted, one.at)
	}
	for _, f := range w.announced {
		f.announced = true
	}
}

// partial implements Sink.Partial. With 2.0, Prometheus writes the other samples of a request, responds with their
// number, and with a line for each sample that it refuses. If these are all out of order, and judge would count each
// sample of the request as written that is, it does not matter which they are: then all samples are.
func (w *writer) partial(items []httpsink.Item, r *httpclient.Response) []error {
	if !w.v2 {
		return nil
	}
	left, refused := uint64(0), 0
	for header, sent := range w.counts {
		written, err := strconv.ParseUint(r.Header.Get(header), 10, 64)
		if err != nil || written > sent {
			return nil
		}
		left += sent - written
	}
	for line := range bytes.Lines(bytes.TrimSpace(r.Body)) {
		if !outOfOrder.Match(line) {
			return nil
		}
		refused++
	}
	if uint64(refused) != left || refused > w.excuses ||
		slices.ContainsFunc(w.sent, func(one sent) bool { return one.at <= one.state.accepted }) {
		return nil
	}
	w.excuses -= refused
	w.repeated += refused
	w.accept()
	return make([]error, len(items))
}

// Texts in responses of Prometheus, Mimir, Cortex and Thanos that refuse a sample because of the time.
var (
	outOfOrder = regexp.MustCompile(`(?i)out[ -]of[ -]order`)
	wrongTime  = regexp.MustCompile(
		`(?i)duplicate[ -](sample|timestamp)|sample-duplicate|out of bounds|too[ -]old|too far in the`)
)

// judge returns whether surely a server of remote write has responded, and the outcome of an item that it refused after
// a request with this item only.
//
// Prometheus refuses a sample that is older than the newest one in the series, also when it has the sample already.
// After a restart of the agent, the source repeats the records that were not yet acknowledged, and after a lost
// response this destination does. Such a sample is newer than all accepted samples in the series during this run. An
// older sample was written out of order.
func (w *writer) judge(item httpsink.Item, r *httpclient.Response, unsure bool, refusal error) (bool, error) {
	if !outOfOrder.Match(r.Body) {
		return wrongTime.Match(r.Body), refusal
	}
	e := decode(&item)
	series := w.series.Known(item.Key)
	if series == nil || e.kind != encodedExemplar && e.at <= stateOf(series).accepted {
		return true, refusal
	}
	if !unsure {
		// Another sender may write newer samples to the same series: it must not hide the loss of all of ours.
		if w.excuses == 0 {
			return true, refusal
		}
		w.excuses--
	}
	w.repeated++
	return true, nil
}
