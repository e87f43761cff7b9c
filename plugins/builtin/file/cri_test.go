package file_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
)

// at returns the Unix nanoseconds of a time of RFC 3339.
func at(t testing.TB, text string) int64 {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.UnixNano()
}

func TestLinesOfContainers(t *testing.T) {
	const when = "2016-10-06T00:17:09.669794202Z"
	ns := at(t, when)
	for line, want := range map[string]file.LogLine{
		when + " stdout F text with spaces  ":                   {"stdout", ns, false, "text with spaces  "},
		when + " stderr P part":                                 {"stderr", ns, true, "part"},
		when + " stdout F ":                                     {"stdout", ns, false, ""},
		when + " stdout F":                                      {"stdout", ns, false, ""},
		when + " stdout P:more:tags x":                          {"stdout", ns, true, "x"},
		when + " stdout F:more \x00\xff":                        {"stdout", ns, false, "\x00\xff"},
		"2016-10-06T00:17:09Z stdout F x":                       {"stdout", at(t, "2016-10-06T00:17:09Z"), false, "x"},
		"2016-10-06T00:17:09.1Z stdout F x":                     {"stdout", at(t, "2016-10-06T00:17:09.1Z"), false, "x"},
		"2016-10-06T02:17:09.669794202+02:00 stdout F x":        {"stdout", ns, false, "x"},
		"2016-10-05T17:47:09.669794202-06:30 stdout F x":        {"stdout", ns, false, "x"},
		"2016-10-06T00:17:09.6697942029Z stdout F x":            {"stdout", ns, false, "x"},
		`{"log":"a\n","stream":"stdout","time":"` + when + `"}`: {"stdout", ns, false, "a"},
		`{"log":"a","stream":"stderr","time":"` + when + `"}`:   {"stderr", ns, true, "a"},
		`{"log":"\n","stream":"stdout","time":"` + when + `"}`:  {"stdout", ns, false, ""},
		`{"stream":"stdout","time":"` + when + `"}`:             {"stdout", ns, true, ""},
		`{"log":"\u003ca\u003e \"\\\u0001\u2028\r\n","stream":"stdout","time":"` + when + `"}`: {"stdout", ns, false,
			"<a> \"\\\x01\u2028\r"},
		`{"log":"\ud83d\ude00\n","stream":"stdout","time":"` + when + `"}`: {"stdout", ns, false, "😀"},
		`{"log":"a\\n","stream":"stdout","time":"` + when + `"}`:           {"stdout", ns, true, `a\n`},
		`{"log":"a\n","stream":"stdout","attrs":{"log":"no","tag":"x"},"time":"` + when + `"}`: {"stdout", ns, false,
			"a"},
		`{"time":"` + when + `", "stream": "stderr", "log": "a\n"}`: {"stderr", ns, false, "a"},
	} {
		format := "cri"
		if line[0] == '{' {
			format = "docker"
		}
		for _, format := range []string{format, "auto"} {
			if got, _, err := file.ParseLog(format, []byte(line)); err != nil || got != want {
				t.Errorf("%s of %s: got %+v and %v, want %+v", line, format, got, err, want)
			}
		}
	}
}

var noLinesOfContainers = []string{
	"", " ", "text", "2016-10-06T00:17:09Z", "2016-10-06T00:17:09Z ", "2016-10-06T00:17:09Z stdout",
	"2016-10-06T00:17:09Z stdout ", "2016-10-06T00:17:09Z stdin F x", "2016-10-06T00:17:09Z stdout X x",
	"2016-10-06T00:17:09Z stdout Full x", "2016-10-06T00:17:09Z stdout P:x", "2016-10-06T00:17:09Z  stdout F x",
	"2016-10-06 00:17:09Z stdout F x", "2016-10-06T00:17:09 stdout F x", "2016-13-06T00:17:09Z stdout F x",
	"2016-02-30T00:17:09Z stdout F x", "2016-10-06T24:17:09Z stdout F x", "2016-10-06T00:17:60Z stdout F x",
	"2016-10-06T00:17:09.Z stdout F x", "2016-10-06T00:17:09+0200 stdout F x", "2016-10-06T00:17:09+24:00 stdout F x",
	"1600-10-06T00:17:09Z stdout F x", "2300-10-06T00:17:09Z stdout F x", "2016-10-06T00:17:0xZ stdout F x",
	"{", "{}", "[]", "null", `{"log":"a\n"}`, `{"log":"a\n","stream":"stdout"}`,
	`{"log":"a\n","stream":"x","time":"2016-10-06T00:17:09Z"}`,
	`{"log":"a\n","stream":"stdout","time":"2016-10-06T00:17:09Z"`,
	`{"log":"a\n","stream":"stdout","time":"2016-10-06T00:17:09Z"}}`,
	`{"log":"a\n","stream":"stdout","time":"2016-10-06T00:17:09Z x"}`,
	`{"log":"a\q\n","stream":"stdout","time":"2016-10-06T00:17:09Z"}`,
	`{"log":"\u12","stream":"stdout","time":"2016-10-06T00:17:09Z"}`,
	`{"log":7,"stream":"stdout","time":"2016-10-06T00:17:09Z"}`,
}

func TestNoLinesOfContainers(t *testing.T) {
	for _, line := range noLinesOfContainers {
		for _, format := range []string{"cri", "docker", "auto"} {
			if got, _, err := file.ParseLog(format, []byte(line)); err == nil {
				t.Errorf("%q is a line of %s: %+v", line, format, got)
			}
		}
	}
}

// FuzzLinesOfContainers compares the parsers with others that are simple.
func FuzzLinesOfContainers(f *testing.F) {
	for _, line := range append(noLinesOfContainers, "2016-10-06T00:17:09.669794202Z stdout F text",
		"2016-10-06T02:17:09.1+02:00 stderr P:x ", `{"log":"a\u003c\n","stream":"stdout","time":"2016-10-06T00:17:09.1Z"}`,
		`{"log":"\\\"\\","stream":"stderr","time":"2016-10-06T00:17:09Z"}`) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for format, simple := range map[string]func(string) (file.LogLine, bool){"cri": simpleCRI, "docker": simpleDocker} {
			got, quick, err := file.ParseLog(format, []byte(line))
			want, ok := simple(line)
			control := strings.ContainsFunc(line, func(r rune) bool { return r < ' ' })
			if quick && (control || !utf8.ValidString(line)) {
				continue // no valid JSON, but text
			}
			if ok != (err == nil) || ok && got != want {
				t.Errorf("%s of %q: got %+v and %v, want %+v and %v", format, line, got, err, want, ok)
			}
		}
	})
}

// simpleTime parses a time of RFC 3339, without what package time permits in addition.
func simpleTime(text string) (int64, bool) {
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[:4] < "1678" || text[:4] > "2261" {
		return 0, false
	}
	if zone := text[max(0, len(text)-6):]; zone[5] != 'Z' && (zone[1:3] > "23" || zone[4:] > "59") {
		return 0, false
	}
	return parsed.UnixNano(), true
}

func simpleCRI(line string) (l file.LogLine, ok bool) {
	parts := strings.SplitN(line, " ", 4)
	if len(parts) < 3 {
		return l, false
	}
	if len(parts) == 3 {
		if len(parts[2]) != 1 {
			return l, false
		}
		parts = append(parts, "")
	}
	tag, _, _ := strings.Cut(parts[2], ":")
	when, ok := simpleTime(parts[0])
	return file.LogLine{Stream: parts[1], Created: when, Partial: tag == "P", Text: parts[3]},
		ok && (parts[1] == "stdout" || parts[1] == "stderr") && (tag == "P" || tag == "F")
}

func simpleDocker(line string) (l file.LogLine, ok bool) {
	var o struct{ Log, Stream, Time string }
	if json.Unmarshal([]byte(line), &o) != nil {
		return l, false
	}
	when, ok := simpleTime(o.Time)
	text, whole := strings.CutSuffix(o.Log, "\n")
	return file.LogLine{Stream: o.Stream, Created: when, Partial: !whole, Text: text},
		ok && (o.Stream == "stdout" || o.Stream == "stderr")
}

func TestContainersOfPaths(t *testing.T) {
	id := strings.Repeat("0a", 32)
	dir := t.TempDir()
	link := filepath.Join(dir, "web-0_shop_my-app-"+id+".log")
	if err := os.Symlink("/var/log/pods/shop_web-0_c4e9/my-app/3.log", link); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(dir, "web-1_shop_app-"+id+".log")
	if err := os.Symlink("/var/lib/docker/containers/"+id+"/"+id+"-json.log", elsewhere); err != nil {
		t.Fatal(err)
	}
	pod := func(more ...string) map[string]string {
		m := map[string]string{"k8s.namespace.name": "shop", "k8s.pod.name": "web-0", "k8s.pod.uid": "c4e9",
			"k8s.container.name": "my-app", "k8s.container.restart_count": "3"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for path, want := range map[string]map[string]string{
		"/var/log/pods/shop_web-0_c4e9/my-app/3.log":      pod(),
		"/host/var/log/pods/shop_web-0_c4e9/my-app/3.log": pod(),
		"pods//shop_web-0_c4e9/my-app/./3.log":            pod(),
		link:                                              pod("container.id", id),
		elsewhere: {"container.id": id, "k8s.namespace.name": "shop", "k8s.pod.name": "web-1",
			"k8s.container.name": "app"},
		"/var/lib/docker/containers/" + id + "/" + id + "-json.log": {"container.id": id},
		"/var/log/containers/web-0_shop_app-1234.log":               {},
		"/var/log/containers/web-0_shop_-" + id + ".log":            {},
		"/var/log/pods/shop_web-0_c4e9/my-app/x.log":                {},
		"/var/log/pods/shop_web-0_c4e9/my-app/.log":                 {},
		"/var/log/pods/shop_web-0/my-app/0.log":                     {},
		"/var/log/pods/shop__c4e9/my-app/0.log":                     {},
		"/var/log/pods/a_b_c_d/my-app/0.log":                        {},
		"0.log":                                                     {}, "/": {}, "": {}, "_._/_.log": {},
	} {
		want["file.path"] = path
		if got := file.ContainerOf(path); !got.Equal(record.NewMetadata(want)) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

// BenchmarkContainerLogs reads the log of a container.
func BenchmarkContainerLogs(b *testing.B) {
	const lines = 200_000
	message := `{"level":"info","msg":"request served","path":"/api/v1/orders","status":200,"bytes":5120,"ms":12.5,` +
		`"user":"u-1234567","trace":"4bf92f3577b34da6a3ce929d0e0e4736","seq":1234567}`
	quoted, _ := json.Marshal(message + "\n")
	start := time.Date(2026, 11, 28, 12, 0, 0, 123456789, time.UTC)
	for format, line := range map[string]func(when string) string{
		"cri": func(when string) string { return when + " stdout F " + message + "\n" },
		"docker": func(when string) string {
			return `{"log":` + string(quoted) + `,"stream":"stdout","time":"` + when + "\"}\n"
		},
	} {
		b.Run(format, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "pods", "shop_web-0_0cf1b6a2-8d3f-4f0c-9f55-6f2b3d1a7c11", "app")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.Fatal(err)
			}
			var text bytes.Buffer
			for i := range lines {
				text.WriteString(line(start.Add(time.Duration(i) * 7 * time.Microsecond).Format(time.RFC3339Nano)))
			}
			path := filepath.Join(dir, "0.log")
			if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(text.Len() / lines))
			b.ReportAllocs()
			b.ResetTimer()
			n, before := 0, cpuTime(b)
			for n < b.N {
				s := open(b, path, nil, "format", format)
				for got := 0; got < lines && n < b.N; {
					records, err := s.Read(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					got, n = got+len(records), n+len(records)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/record")
		})
	}
}
