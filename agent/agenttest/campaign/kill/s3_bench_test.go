package kill_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

const (
	s3Records = 200_000
	s3Batch   = 1000 // records per object
	s3Objects = 2000 // objects to read
)

// BenchmarkS3 writes objects of a thousand records and reads single-line objects with an agent, and with bare
// sequential requests.
func BenchmarkS3(b *testing.B) {
	for _, one := range []struct {
		name    string
		run     func(b *testing.B, s *s3System)
		records float64
	}{
		{"loop-of-writes", benchPuts, s3Records}, {"file-to-s3", benchWriteS3, s3Records},
		{"loop-of-reads", benchGets, s3Objects}, {"s3-to-file", benchReadS3, s3Objects},
	} {
		b.Run(one.name, func(b *testing.B) {
			s := startS3(b, b.TempDir())
			for range b.N {
				one.run(b, s)
			}
			report(b, one.records)
		})
	}
}

func (s *s3System) send(b *testing.B, method, key, body string) string {
	b.Helper()
	_, answer, err := s.Do(context.Background(), method, "/ledger/"+key, "", nil, []byte(body))
	if err != nil {
		b.Fatal(err)
	}
	return string(answer)
}

func benchPuts(b *testing.B, s *s3System) {
	body := strings.Repeat(httpLine+"\n", s3Batch)
	for i := range s3Records / s3Batch {
		s.send(b, "PUT", fmt.Sprintf("loop/%d", i), body)
	}
}

// bench is a pipeline between the bucket and a file in dir.
func (s *s3System) bench(dir, in, out string) string {
	reach := fmt.Sprintf("aws.accessKeyId: conduit, aws.secretAccessKey: secret-0, aws.region: us-east-1, "+
		"aws.bucket: ledger, aws.endpoint: 'http://%s'", s.Addr)
	text := strings.NewReplacer("DIR", dir, "REACH", reach).Replace
	return text(fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: %s}
      - {id: out, type: destination, plugin: %s}
`, in, out))
}

func benchWriteS3(b *testing.B, s *s3System) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	if err := os.WriteFile(dir+"/in", []byte(strings.Repeat(httpLine+"\n", s3Records)), 0o600); err != nil {
		b.Fatal(err)
	}
	const destination = `builtin:s3, settings: {REACH, prefix: bench, format: lines, sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%s" .Payload.After }}'}`
	agentMoves(b, dir, s.bench(dir, "builtin:file, settings: {path: DIR/in}", destination),
		s.holds(b, "bench/", int64(s3Records*(len(httpLine)+1))))
}

var sizeInList = regexp.MustCompile("<Size>([0-9]+)</Size>")

// holds reports whether the objects below the prefix have the given total size in bytes.
func (s *s3System) holds(b *testing.B, prefix string, want int64) func() bool {
	tick := time.NewTicker(20 * time.Millisecond)
	b.Cleanup(tick.Stop)
	return func() bool {
		<-tick.C
		_, answer, err := s.Do(context.Background(), "GET", "/ledger", "list-type=2&prefix="+prefix, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		have := int64(0)
		for _, m := range sizeInList.FindAllSubmatch(answer, -1) {
			n, _ := strconv.ParseInt(string(m[1]), 10, 64)
			have += n
		}
		return have >= want
	}
}

func (s *s3System) fill(b *testing.B) {
	b.Helper()
	b.StopTimer()
	for i := range s3Objects {
		s.send(b, "PUT", fmt.Sprintf("read/%05d", i), httpLine)
	}
	b.StartTimer()
}

func benchGets(b *testing.B, s *s3System) {
	s.fill(b)
	for i := range s3Objects {
		s.send(b, "GET", fmt.Sprintf("read/%05d", i), "")
	}
}

func benchReadS3(b *testing.B, s *s3System) {
	s.fill(b)
	b.StopTimer()
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, s.bench(dir, "builtin:s3, settings: {REACH, prefix: read/, listing.delay: 1ms}",
		"builtin:file, settings: {path: DIR/out}"), lines(dir+"/out", s3Objects))
}
