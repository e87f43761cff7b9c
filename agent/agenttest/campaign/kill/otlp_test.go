package kill_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// otlpServer stores the log records that it receives over OTLP like posted lines.
type otlpServer struct {
	collogs.UnimplementedLogsServiceServer
	api *apiServer
}

// withOTLP returns a handler that also accepts OTLP over gRPC, and over HTTP in JSON.
func withOTLP(s *apiServer) http.Handler {
	server := grpc.NewServer()
	collogs.RegisterLogsServiceServer(server, otlpServer{api: s})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			server.ServeHTTP(w, r)
		case r.URL.Path == "/v1/logs":
			serveLogs(s, w, r)
		default:
			s.ServeHTTP(w, r)
		}
	})
}

// serveLogs stores a request over HTTP in JSON.
func serveLogs(s *apiServer, w http.ResponseWriter, r *http.Request) {
	if !hasToken(r.Header.Get("Authorization")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	data := &logs.LogsData{}
	if err := protojson.Unmarshal(body, data); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := s.storeLogs(data.GetResourceLogs()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func hasToken(header string) bool {
	token, err := os.ReadFile("token")
	return err == nil && header == "Bearer "+string(token)
}

// Export stores a request over gRPC.
func (o otlpServer) Export(
	ctx context.Context, q *collogs.ExportLogsServiceRequest,
) (*collogs.ExportLogsServiceResponse, error) {
	if all := metadata.ValueFromIncomingContext(ctx, "authorization"); len(all) != 1 || !hasToken(all[0]) {
		return nil, status.Error(codes.Unauthenticated, "wrong token")
	}
	if err := o.api.storeLogs(q.GetResourceLogs()); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &collogs.ExportLogsServiceResponse{}, nil
}

// storeLogs stores the numbers of log records.
func (s *apiServer) storeLogs(all []*logs.ResourceLogs) error {
	var lines strings.Builder
	for _, r := range all {
		for _, scope := range r.GetScopeLogs() {
			for _, l := range scope.GetLogRecords() {
				for _, kv := range l.GetBody().GetKvlistValue().GetValues() {
					if kv.GetKey() == "n" {
						fmt.Fprintf(&lines, "{\"n\":%d}\n", kv.GetValue().GetIntValue())
					}
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store("", lines.String())
}

// numberedLogs returns a request with n log records whose bodies are the numbers from first on.
func numberedLogs(first, n int) []*logs.ResourceLogs {
	records := make([]*logs.LogRecord, n)
	for i := range records {
		records[i] = &logs.LogRecord{Body: &common.AnyValue{
			Value: &common.AnyValue_IntValue{IntValue: int64(first + i)}}}
	}
	return []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}}}}
}

// otlpSource is the case of a source that receives from a sender which repeats each request that is not accepted.
func otlpSource(send func(ctx context.Context, addr, token string, first, n int) error) kill.Source {
	return kill.Source{
		Plugin: "builtin:otlp",
		System: func(t *testing.T, dir string) *kill.System {
			own, through := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), ""
			token, rotate := rotatedToken(t, dir)
			return &kill.System{
				Addr: own,
				Settings: func(addr string) map[string]string {
					through = addr
					return map[string]string{"addresses": own, "auth.token": "${file:" + token + "}"}
				},
				Rotate: rotate,
				Produce: func(ctx context.Context, first, n int) error {
					word, err := os.ReadFile(token)
					if err != nil {
						return err
					}
					ctx, cancel := context.WithTimeout(ctx, caller.Timeout)
					defer cancel()
					return send(ctx, through, "Bearer "+string(word), first, n)
				},
			}
		},
		Number: func(r *kill.Line) (int, error) {
			var payload struct{ Body *int }
			if err := r.Decode(&payload); err != nil {
				return 0, err
			}
			if payload.Body == nil {
				return 0, errors.New("the log record has no number")
			}
			return *payload.Body, nil
		},
	}
}

// TestOTLPSource sends to the agent over gRPC: no request that is accepted is lost.
func TestOTLPSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, otlpSource(func(ctx context.Context, addr, token string, first, n int) error {
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
		_, err = collogs.NewLogsServiceClient(c).Export(ctx,
			&collogs.ExportLogsServiceRequest{ResourceLogs: numberedLogs(first, n)})
		return err
	}))
}

// TestOTLPJSONSource sends to the agent over HTTP in JSON.
func TestOTLPJSONSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, otlpSource(func(ctx context.Context, addr, token string, first, n int) error {
		body, err := protojson.Marshal(&logs.LogsData{ResourceLogs: numberedLogs(first, n)})
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/logs", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := caller.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %d", resp.StatusCode)
		}
		return nil
	}))
}

// otlpDestination is the case of a destination with this protocol and a server that stores each request it accepts.
func otlpDestination(protocol string) kill.Destination {
	return kill.Destination{
		Plugin: "builtin:otlp", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			a := startAPI(t, dir)
			return &kill.System{
				Addr: a.addr, Server: a, Rotate: a.rotate, Stored: a.stored,
				Settings: func(addr string) map[string]string {
					return map[string]string{"url": "http://" + addr, "protocol": protocol, "compression": "none",
						"auth.token": "${file:" + a.token + "}", "timeout": "2s", "retry.timeout": "1s"}
				},
			}
		},
	}
}

// TestOTLPDestination sends to a server over gRPC.
func TestOTLPDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, otlpDestination("grpc"))
}

// TestOTLPJSONDestination sends to a server over HTTP in JSON.
func TestOTLPJSONDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, otlpDestination("http/json"))
}

// TestOTLPExample runs the example of the connector's page, with the addresses and the token of the test.
func TestOTLPExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	s := startAPI(t, t.TempDir())
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	file := example(t, "plugins/builtin/otlp/README.md")
	file = replace(t, file, "127.0.0.1:4317, 127.0.0.1:4318", addr)
	file = replace(t, file, "https://collector.example.com:4317", "http://"+s.addr)
	file = replace(t, file, "/etc/conduit/collector-token", s.token)
	a.Save("telemetry.yaml", file)
	body := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"kvlistValue":{"values":[{"key":"n",` +
		`"value":{"intValue":"7"}}]}}}]}]}]}`
	var text []byte
	a.Wait("the agent to answer", func() bool {
		resp, err := http.Post("http://"+addr+"/v1/logs", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		text, err = io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	if all, err := s.stored(t.Context()); string(text) != "{}" || err != nil || len(all) == 0 || all[0] != 7 {
		t.Errorf("answered %s when the server had stored %v %v", text, all, err)
	}
}
