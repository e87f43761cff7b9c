package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// takeSamples stores the values of a series like Prometheus: it refuses a request with a sample that is older than the
// newest one, and stores one with the same time once.
func (r *receiver) takeSamples(compressed []byte) (string, error) {
	body, err := snappy.Decode(nil, compressed)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newest, err := r.newest()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, s := range samplesIn(body) {
		if s.at < newest {
			return "", errors.New("out of order sample")
		}
		if s.at > newest {
			lines = append(lines, fmt.Sprintf(`{"n":%v}`, s.value))
		}
	}
	if len(lines) == 0 {
		return "", nil
	}
	return "", r.put("", lines...)
}

// newest returns the time of the newest stored sample, which is its number.
func (r *receiver) newest() (int64, error) {
	r.apiServer.mu.Lock()
	defer r.apiServer.mu.Unlock()
	if len(r.items) == 0 {
		return math.MinInt64, nil
	}
	var last struct{ N int64 }
	err := json.Unmarshal([]byte(r.items[len(r.items)-1]), &last)
	return last.N, err
}

type timedValue struct {
	at    int64
	value float64
}

// samplesIn returns the samples of a request of remote write 1.0.
func samplesIn(body []byte) (all []timedValue) {
	each := func(b []byte, do func(number protowire.Number, n uint64, value []byte)) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			b = b[n:]
			var integer uint64
			var value []byte
			switch kind {
			case protowire.VarintType:
				integer, n = protowire.ConsumeVarint(b)
			case protowire.Fixed64Type:
				integer, n = protowire.ConsumeFixed64(b)
			default:
				value, n = protowire.ConsumeBytes(b)
			}
			if n < 0 {
				panic(protowire.ParseError(n))
			}
			b = b[n:]
			do(number, integer, value)
		}
	}
	each(body, func(number protowire.Number, _ uint64, series []byte) {
		if number != 1 {
			return
		}
		each(series, func(number protowire.Number, _ uint64, sample []byte) {
			if number != 2 {
				return
			}
			var v timedValue
			each(sample, func(number protowire.Number, n uint64, _ []byte) {
				if number == 1 {
					v.value = math.Float64frombits(n)
				} else {
					v.at = int64(n)
				}
			})
			all = append(all, v)
		})
	})
	return all
}

// remoteWrite returns a compressed request with n samples of a series: their values are the numbers from first on.
func remoteWrite(first, n int) []byte {
	field := func(dst []byte, number protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
	}
	series := field(nil, 1, field(field(nil, 1, []byte("__name__")), 2, []byte("ledger")))
	for i := first; i < first+n; i++ {
		sample := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
		sample = protowire.AppendFixed64(sample, math.Float64bits(float64(i)))
		series = field(series, 2, protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(i)))
	}
	return snappy.Encode(nil, field(nil, 1, series))
}

// sendSamples posts a request, and returns an error unless it is accepted.
func sendSamples(ctx context.Context, addr, token string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/write", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", token)
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	resp, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("answered %d %s %w", resp.StatusCode, text, err)
	}
	return nil
}

// TestPrometheusSource sends samples to the agent with a sender that repeats each request which is not accepted.
func TestPrometheusSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:prometheus",
		System: func(t *testing.T, dir string) *kill.System {
			own, through := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), ""
			token, rotate := rotatedToken(t, dir)
			return &kill.System{
				Addr: own, Rotate: rotate,
				Settings: func(addr string) map[string]string {
					through = addr
					return map[string]string{"address": own, "auth.token": "${file:" + token + "}"}
				},
				Produce: func(ctx context.Context, first, n int) error {
					word, err := os.ReadFile(token)
					if err != nil {
						return err
					}
					ctx, cancel := context.WithTimeout(ctx, caller.Timeout)
					defer cancel()
					return sendSamples(ctx, through, "Bearer "+string(word), remoteWrite(first, n))
				},
			}
		},
		Number: func(r *kill.Line) (int, error) {
			var payload struct{ Value *int }
			if err := r.Decode(&payload); err != nil {
				return 0, err
			}
			if payload.Value == nil {
				return 0, errors.New("the sample has no value")
			}
			return *payload.Value, nil
		},
	})
}

// TestPrometheusDestination sends samples to a server that refuses those which are out of order. The server has stored
// all samples that are sent again, so no sample may become a dead letter.
func TestPrometheusDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	c := toReceiver("builtin:prometheus", func(token string) map[string]string {
		return map[string]string{"url": "/api/v1/write", "name": "ledger", "value": "{{ .Payload.After.n }}",
			"time": "{{ .Payload.After.n }}", "auth.token": token}
	})
	c.Once = true // the server does not store a sample twice
	system, ofAgent := c.System, ""
	c.System = func(t *testing.T, dir string) *kill.System { ofAgent = dir; return system(t, dir) }
	kill.RunDestination(t, c)
	if all, err := deadLetterNumbers(t.Context(), ofAgent); len(all) > 0 || err != nil {
		t.Errorf("the samples %v were refused: %v", all, err)
	}
}

// TestPrometheusExample runs the example of the connector's page with one sample.
func TestPrometheusExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	s, a := startAPI(t, t.TempDir()), agenttest.Start(t, "")
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	file := example(t, "plugins/builtin/prometheus/README.md")
	file = replace(t, file, "127.0.0.1:9201", addr)
	file = replace(t, file, "https://prometheus.example.com", "http://"+s.addr)
	file = replace(t, file, "/etc/conduit/prometheus-token", s.token)
	a.Save("metrics.yaml", file)
	a.Wait("the agent to answer", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return sendSamples(ctx, addr, "", remoteWrite(7, 1)) == nil
	})
	if stored, err := os.ReadFile(s.dir + "/stored"); err != nil || strings.TrimSpace(string(stored)) != `{"n":7}` {
		t.Errorf("when the agent answers, the server has stored %q: %v", stored, err)
	}
}
