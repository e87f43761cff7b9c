package httpsink_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// words is a dialect whose items are words, each on a line. The first letter of a word is its key; a capital letter
// means that the word is apart. A response has a letter for each word: + written, ~ failed temporarily, - refused,
// ! not to blame.
type words struct{}

func (words) Begin(context.Context) {}

func (words) Encode(dst []byte, r *record.Record, _ common.RecordID) (httpsink.Item, error) {
	word, _ := r.After.Raw()
	if len(word) == 0 {
		return httpsink.Item{}, errors.New("no word")
	}
	return httpsink.Item{Text: append(dst, word...), Key: string(word[:1]), Apart: word[0] < 'a'}, nil
}

func (words) Body(items []httpsink.Item) (body []byte) {
	for _, item := range items {
		body = append(append(body, item.Text...), '\n')
	}
	return body
}

func (words) Outcomes(r *httpclient.Response, n int) (all []error, err error) {
	if len(r.Body) != n {
		return nil, fmt.Errorf("%d letters for %d words", len(r.Body), n)
	}
	for _, letter := range r.Body {
		all = append(all, map[byte]error{'~': httpsink.Temporary(errors.New("later")), '-': errors.New("refused"),
			'!': sdk.Unavailable(errors.New("forbidden"))}[letter])
	}
	return all, nil
}

// answers is a server that responds to each request with the next text, and after that with a plus for each word. A
// text that begins with a digit is a status.
type answers struct {
	texts []string
	got   []string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		from, _ = gzip.NewReader(r.Body)
	}
	body, _ := io.ReadAll(from)
	a.got = append(a.got, strings.TrimSuffix(strings.ReplaceAll(string(body), "\n", " "), " "))
	if len(a.texts) == 0 {
		_, _ = io.WriteString(w, strings.Repeat("+", strings.Count(string(body), "\n")))
		return
	}
	text := a.texts[0]
	a.texts = a.texts[1:]
	var status, pause int
	if n, _ := fmt.Sscanf(text, "%d %d", &status, &pause); n > 0 {
		if pause > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(pause))
		}
		http.Error(w, "because topsecret", status)
		return
	}
	_, _ = io.WriteString(w, text)
}

func sink(t *testing.T, a http.Handler, change func(*httpsink.Settings)) *httpsink.Sink {
	t.Helper()
	settings := &httpsink.Settings{MaxRecords: 10, MaxBytes: 1000, Timeout: time.Minute, RetryFor: time.Hour}
	settings.Token = "topsecret"
	if change != nil {
		change(settings)
	}
	s, err := httpsink.New(settings, words{}, "http://h/", "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	s.Client.Transport.DialContext = network.ServePipes(t, a).Dial
	t.Cleanup(s.Client.Close)
	return s
}

func records(texts string) (all []record.Record) {
	for i, word := range strings.Split(texts, " ") {
		all = append(all, record.Record{Position: fmt.Appendf(nil, "p%d", i), After: record.Raw([]byte(word))})
	}
	return all
}

// writeAll writes the records as a host does, which repeats those after a refused one, and returns the refused words.
func writeAll(ctx context.Context, s *httpsink.Sink, all []record.Record) (refused []string, err error) {
	for len(all) > 0 {
		n, err := s.Write(ctx, all)
		if l, ok := err.(interface{ Lost() bool }); ok && l.Lost() || err == nil && n < len(all) || n > len(all) {
			return refused, fmt.Errorf("wrote %d of %d: %w", n, len(all), err)
		}
		if all = all[n:]; err != nil {
			word, _ := all[0].After.Raw()
			refused = append(refused, string(word)+": "+err.Error())
			all = all[1:]
		}
	}
	return refused, nil
}

// TestOutcomes checks the requests and the refused records of each course of events.
func TestOutcomes(t *testing.T) {
	no := func(word string) string { return word + ": refused" }
	whole := func(word string, status int) string {
		return fmt.Sprintf("%s: the server refused the record: the server responded with status %d %s: %q", word, status,
			http.StatusText(status), "because ***")
	}
	for name, c := range map[string]struct {
		words   string
		answers []string
		change  func(*httpsink.Settings)
		want    []string
		refused []string
	}{
		"written":     {words: "a b c", want: []string{"a b c"}},
		"compressed":  {"a b c", nil, func(s *httpsink.Settings) { s.Compression = "gzip" }, []string{"a b c"}, nil},
		"most":        {"a b c", nil, func(s *httpsink.Settings) { s.MaxRecords = 2 }, []string{"a b", "c"}, nil},
		"bytes":       {"aa bb cc", nil, func(s *httpsink.Settings) { s.MaxBytes = 4 }, []string{"aa bb", "cc"}, nil},
		"large alone": {"aaaaa b", nil, func(s *httpsink.Settings) { s.MaxBytes = 4 }, []string{"aaaaa", "b"}, nil},
		"apart":       {words: "A b C D e", want: []string{"A b", "C", "D e"}},
		"unfit":       {words: "a  c", want: []string{"a", "c"}, refused: []string{": no word"}},
		"refused": {words: "a b c d", answers: []string{"+-+-"}, want: []string{"a b c d"},
			refused: []string{no("b"), no("d")}},
		"refused, and more": {"a b c d e", []string{"-+-+"}, func(s *httpsink.Settings) { s.MaxRecords = 4 },
			[]string{"a b c d", "e"}, []string{no("a"), no("c")}},
		"temporary": {words: "a1 b1 a2 c1 b2", answers: []string{"~++++", "+~"},
			want: []string{"a1 b1 a2 c1 b2", "a1 a2", "a2"}},
		"temporary and refused": {words: "a1 b1 a2 c1", answers: []string{"~--+", "+-"},
			want: []string{"a1 b1 a2 c1", "a1 a2"}, refused: []string{no("b1"), no("a2")}},
		"503 and 429":    {words: "a b", answers: []string{"503", "429"}, want: []string{"a b", "a b", "a b"}},
		"wrong response": {words: "a b", answers: []string{"+", "+++", ""}, want: []string{"a b", "a b", "a b", "a b"}},
		"400 of one": {words: "a b c d", answers: []string{"400", "++", "400", "400", "+"},
			want: []string{"a b c d", "a b", "c d", "c", "d"}, refused: []string{whole("c", 400)}},
		"400 of the first": {words: "a b", answers: []string{"400", "400", "+"}, want: []string{"a b", "a", "b"},
			refused: []string{whole("a", 400)}},
		"413 of all": {words: "a b", answers: []string{"413", "413", "413"}, want: []string{"a b", "a", "b"},
			refused: []string{whole("a", 413), whole("b", 413)}},
		"413": {words: "a b c", answers: []string{"413", "413"}, want: []string{"a b c", "a", "b c"},
			refused: []string{whole("a", 413)}},
		"all of it": {words: "a1 a2 b1 c1", answers: []string{"413", "~+", "503", "++", "~-", "-"},
			want: []string{"a1 a2 b1 c1", "a1 a2", "a1 a2", "a1 a2", "b1 c1", "b1"}, refused: []string{no("b1"),
				no("c1")}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{texts: c.answers}
			refused, err := writeAll(t.Context(), sink(t, a, c.change), records(c.words))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !slices.Equal(a.got, c.want) {
				t.Errorf("%s: the requests are %q, want %q", name, a.got, c.want)
			}
			if !slices.Equal(refused, c.refused) {
				t.Errorf("%s: refused are %q, want %q", name, refused, c.refused)
			}
		})
	}
}

// TestRetryAfter checks that the pause is the one that the server requests, and that retries end after RetryFor, which
// begins again when the server has made progress.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := writeAll(t.Context(), sink(t, &answers{texts: []string{"429 100", "503 20"}}, nil), records("a b"))
		if took := time.Since(began); err != nil || took < 120*time.Second || took > 121*time.Second {
			t.Errorf("it took %v: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var texts []string
		for range 100 {
			texts = append(texts, "503 7")
		}
		limit := func(s *httpsink.Settings) { s.RetryFor = time.Minute }
		_, err := writeAll(t.Context(), sink(t, &answers{texts: texts}, limit), records("a b"))
		if took := time.Since(began); err == nil || took < 30*time.Second || took > time.Minute {
			t.Errorf("it took %v: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := &answers{}
		word := "abcdefghij"
		for i := range word {
			a.texts = append(a.texts, "503 40", strings.Repeat("+", 1)+strings.Repeat("~", len(word)-1-i))
		}
		limit := func(s *httpsink.Settings) { s.RetryFor = time.Minute }
		_, err := writeAll(t.Context(), sink(t, a, limit), records(strings.Join(strings.Split(word, ""), " ")))
		if err != nil {
			t.Errorf("with progress it fails: %v", err)
		}
	})
}

// TestNotTheRecord checks the errors that blame no record, their remedies, and that they contain no secrets.
func TestNotTheRecord(t *testing.T) {
	for text, part := range map[string]string{"401": "check the settings auth.*", "403": "the right to write",
		"404": "check the path in url", "301": "status 301", "501": "status 501", "+!+": "forbidden",
		"503":                 "(the last of 1 tries)",
		"400 400 400 400 400": "url may be wrong", "+": "1 letters for 3 words"} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{texts: strings.Fields(text)}
			s := sink(t, a, func(s *httpsink.Settings) { s.RetryFor = 0 })
			n, err := s.Write(t.Context(), records("a b c"))
			if l, ok := err.(interface{ Lost() bool }); !ok || !l.Lost() || !strings.Contains(err.Error(), part) ||
				strings.Contains(err.Error(), "topsecret") || strings.Contains(text, "!") != (n == 1) {
				t.Errorf("%s: wrote %d: %v, want %q", text, n, err, part)
			}
			if refused, err := writeAll(t.Context(), s, records("a b c")[n:]); err != nil || refused != nil {
				t.Errorf("%s: later it fails: %q, %v", text, refused, err)
			}
		})
	}
}

// TestJudge checks the outcomes of items that the server refuses, after a request with other items or a failed one.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string
		known   bool
		refused []string // words; "lost": the URL may be wrong
		judged  []string // words, with a question mark if the server may have written them before
	}{
		"refused":        {[]string{"++", "400", "400"}, false, []string{"c"}, []string{"c"}},
		"after failures": {[]string{"++", "503", "400", "400", "400"}, false, []string{"c"}, []string{"c?", "d?"}},
		"first, unknown": {[]string{"400", "400", "400"}, false, []string{"lost"}, []string{"a", "b"}},
		"first, known":   {[]string{"400", "400", "400"}, true, nil, []string{"a", "b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sink(t, &answers{texts: c.answers}, func(s *httpsink.Settings) { s.MaxRecords = 2 })
			var judged []string
			s.Judge = func(i httpsink.Item, r *httpclient.Response, unsure bool, refusal error) (bool, error) {
				if r.Status != 400 || !strings.Contains(refusal.Error(), "status 400") {
					t.Errorf("%s: judges %d, %v", name, r.Status, refusal)
				}
				judged = append(judged, string(i.Text)+map[bool]string{true: "?"}[unsure])
				if i.Key == "c" || name == "first, unknown" {
					return c.known, refusal
				}
				return c.known, nil
			}
			refused, err := writeAll(t.Context(), s, records("a b c d"))
			if err != nil {
				refused = append(refused, "lost")
			}
			for i := range refused {
				refused[i], _, _ = strings.Cut(refused[i], ":")
			}
			if !slices.Equal(refused, c.refused) || !slices.Equal(judged[:min(2, len(judged))], c.judged) {
				t.Errorf("%s: refused %q, %v, judged %q", name, refused, err, judged)
			}
		})
	}
}

// TestProbe checks that a record alone is refused if the probe shows that the URL is correct.
func TestProbe(t *testing.T) {
	for works, want := range map[bool]string{true: "the server refused the record", false: "url may be wrong"} {
		synctest.Test(t, func(t *testing.T) {
			s := sink(t, &answers{texts: []string{"400"}}, nil)
			s.Probe = func(context.Context) bool { return works }
			n, err := s.Write(t.Context(), records("a"))
			if l, ok := err.(interface{ Lost() bool }); n != 0 || works == (ok && l.Lost()) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("wrote %d: %v, want %q", n, err, want)
			}
		})
	}
}

// TestInterrupted checks that the end of the context ends a pause.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		n, err := sink(t, &answers{texts: []string{"503 100"}}, nil).Write(ctx, records("a b"))
		if took := time.Since(began); n != 0 || !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("after %v it has written %d: %v", took, n, err)
		}
	})
}

// TestLargeResponse checks that a response is not read to its end if it is too large.
func TestLargeResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			block := make([]byte, 1<<20)
			for range 100 {
				if _, err := w.Write(block); err != nil {
					return
				}
				sent += len(block)
			}
		})
		n, err := sink(t, endless, func(s *httpsink.Settings) { s.RetryFor = 0 }).Write(t.Context(), records("a"))
		if n != 0 || !errors.Is(err, httpclient.ErrTooLarge) || sent > 20<<20 {
			t.Errorf("it read %d bytes and wrote %d: %v", sent, n, err)
		}
	})
}
