package kill_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// BenchmarkPeer runs the benchmarks of the connectors with Bento, with the batches that suit it. It writes the payload
// alone to files, where the agent writes the whole record as JSON.
func BenchmarkPeer(b *testing.B) {
	for _, one := range []struct {
		name    string
		records int
		run     func(b *testing.B)
	}{
		{"kafka-to-file", kafkaRecords, peerFromKafka}, {"file-to-kafka", kafkaRecords, peerToKafka},
		{"http-to-file", httpRecords, peerFromHTTP}, {"redis-to-file", redisRecords, peerFromRedis},
		{"mqtt-to-file", mqttRecords, peerFromMQTT}, {"nats-to-file", natsRecords, peerFromNATS},
	} {
		b.Run(one.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				one.run(b)
			}
			report(b, float64(one.records))
		})
	}
}

// startPeer starts Bento with a configuration.
func startPeer(b *testing.B, dir, config string) *exec.Cmd {
	b.Helper()
	path, err := exec.LookPath("bento")
	if err != nil {
		b.Skip("there is no bento in the PATH: go install github.com/warpstreamlabs/bento/cmd/bento@v1.20.0")
	}
	file := filepath.Join(dir, "bento.yaml")
	if err := os.WriteFile(file, []byte("http: {enabled: false}\nlogger: {level: WARN}\n"+config), 0o600); err != nil {
		b.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "-c", file)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if _ = cmd.Process.Kill(); b.Failed() {
			b.Logf("%s", log.Bytes())
		}
	})
	return cmd
}

// peerMoves measures the time from the start of Bento until done.
func peerMoves(b *testing.B, dir, config string, done func() bool) {
	b.Helper()
	b.StartTimer()
	cmd := startPeer(b, dir, config)
	wait.For(b, "all records", done)
	b.StopTimer()
	endPeer(cmd)
}

// endPeer ends Bento, and adds its CPU time.
func endPeer(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	use(kill.Usage{CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()})
}

// toLines is the output of payloads to a file.
func toLines(dir string) string {
	return fmt.Sprintf("output: {file: {path: %s/out, codec: lines}}\n", dir)
}

func peerFromKafka(b *testing.B) {
	k, dir := startKfake(b, true), agenttest.NewDir(b)
	peerMoves(b, dir, fmt.Sprintf(`input: {kafka_franz: {seed_brokers: ["%s"], topics: [bench], consumer_group: bench,
  start_from_oldest: true, batching: {count: 1000, period: 50ms}}}
`, k.Addr)+toLines(dir), lines(dir+"/out", kafkaRecords))
}

func peerToKafka(b *testing.B) {
	k, dir := startKfake(b, false), agenttest.NewDir(b)
	writeLines(b, dir, kafkaRecords)
	admin := kadm.NewClient(benchClient(b, k))
	peerMoves(b, dir, fmt.Sprintf(`input: {file: {paths: [%s/in], scanner: {lines: {}}}}
output: {kafka_franz: {seed_brokers: ["%s"], topic: bench, max_in_flight: 10, batching: {count: 1000, period: 50ms}}}
`, dir, k.Addr), sometimes(func() bool {
		ends, err := admin.ListEndOffsets(b.Context(), "bench")
		end, _ := ends.Lookup("bench", 0)
		return err == nil && end.Offset >= kafkaRecords
	}))
}

func peerFromHTTP(b *testing.B) {
	dir, addr := agenttest.NewDir(b), fmt.Sprintf("127.0.0.1:%d", network.FreePort(b))
	cmd := startPeer(b, dir, fmt.Sprintf(`input: {http_server: {address: "%s", path: /}}
pipeline: {processors: [{unarchive: {format: lines}}]}
`, addr)+toLines(dir))
	wait.For(b, "the input to listen", func() bool { return listens(addr) })
	b.StartTimer()
	requests(b, "http://"+addr+"/", httpSenders)
	wait.For(b, "all records", lines(dir+"/out", httpRecords))
	b.StopTimer()
	endPeer(cmd)
}

func peerFromRedis(b *testing.B) {
	r, dir := server.StartRedis(b, "", "appendfsync everysec"), agenttest.NewDir(b)
	c, err := redis.Dial("tcp", r.Addr)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	redisFill(b, c)
	peerMoves(b, dir, fmt.Sprintf(`input: {redis_streams: {url: "redis://%s", streams: [bench], body_key: record,
  consumer_group: bench, client_id: bench, limit: 1000, start_from_oldest: true}}
`, r.Addr)+toLines(dir), lines(dir+"/out", redisRecords))
}

func peerFromMQTT(b *testing.B) {
	m, dir := startMosquitto(b, b.TempDir(), ""), agenttest.NewDir(b)
	m.queue(b, "bench")
	peerMoves(b, dir, fmt.Sprintf(`input: {mqtt: {urls: ["tcp://%s"], topics: [bench], client_id: bench,
  clean_session: false, qos: 1, user: conduit, password: word}}
`, m.Addr)+toLines(dir), lines(dir+"/out", mqttRecords))
}

func peerFromNATS(b *testing.B) {
	s, dir := startNATS(b, b.TempDir(), fmt.Sprintf("jetstream: {store_dir: %q}", server.Dir(b))), agenttest.NewDir(b)
	c, err := s.connect()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		b.Fatal(err)
	}
	benchPublishNATS(b, s, js)
	peerMoves(b, dir, fmt.Sprintf(`input: {nats_jetstream: {urls: ["%s"], stream: LEDGER, subject: ledger, durable: bench,
  deliver: all, max_ack_pending: 5000}}
`, strings.Replace(s.URL(), "://", "://conduit:word-0@", 1))+toLines(dir), lines(dir+"/out", natsRecords))
}
