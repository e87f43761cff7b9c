package kill_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// s3System is a store with the bucket ledger, whose secret is in a file.
type s3System struct {
	*server.S3
	t      testing.TB
	secret string // path of the file that settings refer to
	n      int    // secrets so far
}

func startS3(t testing.TB, dir string) *s3System {
	t.Helper()
	s := &s3System{t: t, S3: server.StartS3(t, "secret-0", ""), secret: filepath.Join(dir, "secret")}
	if err := os.WriteFile(s.secret, []byte("secret-0"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "PUT", "/ledger", "", "")
	return s
}

// rotate replaces the secret.
func (s *s3System) rotate(ctx context.Context) error {
	s.n++
	word := fmt.Sprintf("secret-%d", s.n)
	s.SetSecret(s.t, word)
	s.Stop()
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(s.secret+".new", []byte(word), 0o600); err != nil {
		return err
	}
	return os.Rename(s.secret+".new", s.secret)
}

func (s *s3System) settings(more ...string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"aws.accessKeyId": "conduit", "aws.secretAccessKey": "${file:" + s.secret + "}",
			"aws.region": "us-east-1", "aws.bucket": "ledger",
			"aws.endpoint": "http://" + addr, "timeout": "2s"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
}

// stored returns the numbers in the objects, in the order of their names. It leaves out positions and staged objects.
func (s *s3System) stored(context.Context) (all []int, err error) {
	files := s.Files(s.t, "ledger")
	var names []string
	for name := range files {
		if !strings.HasPrefix(name, ".conduit-positions/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for line := range strings.Lines(files[name]) {
			var l struct{ Payload string }
			var payload struct{ N int }
			if err := cmp.Or(json.Unmarshal([]byte(line), &l), json.Unmarshal([]byte(l.Payload), &payload)); err !=
				nil {
				return nil, err
			}
			all = append(all, payload.N)
		}
	}
	return all, nil
}

// TestS3Source reads an object for each number.
func TestS3Source(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	polling, delay := "400ms", "100ms" // listing all objects takes half of the test's CPU time
	if kill.All() {
		polling, delay = "100ms", "1s"
	}
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:s3", Interval: 100 * time.Millisecond,
		System: func(t *testing.T, dir string) *kill.System {
			s := startS3(t, dir)
			return &kill.System{
				Addr: s.Addr, Server: s, Rotate: s.rotate,
				Settings: s.settings("pollingPeriod", polling, "listing.delay", delay),
				Produce: func(ctx context.Context, first, n int) error {
					for i := first; i < first+n; i++ {
						header := http.Header{"If-None-Match": {"*"}} // written twice, it would be read twice
						_, _, err := s.Do(ctx, "PUT", fmt.Sprintf("/ledger/%08d", i), "", header,
							fmt.Appendf(nil, `{"n":%d}`, i))
						if refused := new(server.RefusedError); err != nil &&
							!(errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed) {
							return err
						}
					}
					return nil
				},
			}
		},
	})
}

// TestS3Destination writes objects: with positions, each record exactly once; without them, it repeats outstanding
// records. The keys of objects are numbers, or a template of a field makes them.
func TestS3Destination(t *testing.T) {
	t.Parallel()
	const groups = 3
	for _, one := range []struct {
		name string
		once bool
		key  string
	}{
		{"once", true, ""}, {"repeated", false, ""},
		{"once by key", true, fmt.Sprintf("rest/{{ mod .Payload.After.n %d }}/numbers.jsonl", groups)},
	} {
		t.Run(one.name, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			c := kill.Destination{
				Plugin: "builtin:s3", Once: one.once, Reread: !one.once,
				System: func(t *testing.T, dir string) *kill.System {
					s := startS3(t, dir)
					return &kill.System{
						Addr: s.Addr, Server: s, Rotate: s.rotate, Stored: s.stored,
						Settings: s.settings("format", "json", "retry.timeout", "1s", "sdk.batch.delay", "20ms",
							"exactlyOnce", fmt.Sprint(one.once), "key", one.key),
					}
				},
			}
			if one.key != "" {
				c.Group = func(number int) int { return number % groups }
			}
			kill.RunDestination(t, c)
		})
	}
}

// TestS3Example runs the example of the connector's page, with the addresses and paths of the test: a request is
// answered when its records are in the bucket.
func TestS3Example(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	s := startS3(t, a.Path("."))
	own, token := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), a.Path("token")
	if err := os.WriteFile(token, []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := example(t, "plugins/builtin/s3/README.md")
	file = replace(t, file, "127.0.0.1:8090", own)
	file = replace(t, file, "/etc/conduit/hooks-token", token)
	file = replace(t, file, "https://minio.example.com:9000", "http://"+s.Addr)
	file = replace(t, file, "aws.bucket: events", "aws.bucket: ledger")
	file = replace(t, file, "/etc/conduit/s3-secret", s.secret)
	file = replace(t, file, "eu-central-1", "us-east-1")
	a.Save("archive.yaml", file)
	a.WaitPhase("archive", spec.PhaseRunning, 1)
	if _, err := call(t.Context(), "POST", own+"/events", token, numbered(1, 2)); err != nil {
		t.Fatal(err)
	}
	records := 0
	for name, content := range s.Files(t, "ledger") {
		if strings.HasPrefix(name, "events/") && strings.HasSuffix(name, ".json") {
			records += strings.Count(content, `"Operation":"create"`)
		}
	}
	if records != 2 {
		t.Errorf("the bucket has %d records when the request is answered", records)
	}
}
