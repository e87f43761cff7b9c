package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// connectors moves the same rows with the tools of a system, or with a bare loop of the same client, and with an agent.
// Each case uses a separate server, which must be installed. A compared case, usually one with an agent, is compared
// with the last bare case before it.
var connectors = suite{
	name:  "connectors",
	title: "Connectors and the tools of their systems, the same rows",
	columns: []column{{name: "records/s", format: "%.0f"}, {name: "of the line without an agent", format: "%.2f"},
		{name: "CPU µs/record of the agent or loop", format: "%.2f"},
		{name: "MiB of the agent at most", format: "%.0f"}},
	cases: []testCase{
		bare("postgres: COPY TO STDOUT", "BenchmarkPostgres/copy-to-stdout"),
		compared("postgres → file, snapshot", "BenchmarkPostgres/snapshot"),
		bare("postgres: pg_recvlogical", "BenchmarkPostgres/pg_recvlogical"),
		compared("postgres → file, changes", "BenchmarkPostgres/changes"),
		bare("postgres: COPY FROM STDIN", "BenchmarkPostgres/copy-from-stdin"),
		compared("file → postgres", "BenchmarkPostgres/file-to-postgres"),
		bare("http: requests of 100 to a handler", "BenchmarkHTTP/requests-to-handler"),
		compared("http → file, requests of 100", "BenchmarkHTTP/requests-to-file"),
		compared("http → file, requests of 100, the payload alone", "BenchmarkHTTP/requests-to-lines"),
		bare("http: loop of requests of 100", "BenchmarkHTTP/loop-to-handler"),
		compared("file → http, requests of 100", "BenchmarkHTTP/file-to-handler"),
		bare("mqtt: subscriber", "BenchmarkMQTT/subscriber"),
		compared("mqtt → file, QoS 1", "BenchmarkMQTT/mqtt-to-file"),
		bare("mqtt: publisher", "BenchmarkMQTT/publisher"),
		compared("file → mqtt, QoS 1", "BenchmarkMQTT/file-to-mqtt"),
		bare("mysql: inserts", "BenchmarkMySQL/inserts"),
		compared("file → mysql", "BenchmarkMySQL/file-to-mysql"),
		bare("mysql: SELECT", "BenchmarkMySQL/select"),
		compared("mysql → file, snapshot", "BenchmarkMySQL/snapshot"),
		bare("mysql: mariadb-binlog", "BenchmarkMySQL/mariadb-binlog"),
		compared("mysql → file, changes", "BenchmarkMySQL/changes"),
		bare("kafka: producer", "BenchmarkKafka/producer"),
		compared("kafka: producer with the window of an agent", "BenchmarkKafka/producer-with-window"),
		compared("file → kafka", "BenchmarkKafka/file-to-kafka"),
		bare("kafka: consumer", "BenchmarkKafka/consumer"),
		bare("kafka: consumer that writes the same records", "BenchmarkKafka/consumer-to-file"),
		compared("kafka → file", "BenchmarkKafka/kafka-to-file"),
		bare("kafka: consumer that writes the payload alone", "BenchmarkKafka/consumer-to-lines"),
		compared("kafka → file, the payload alone", "BenchmarkKafka/kafka-to-lines"),
		bare("sqlite: inserts", "BenchmarkSQLite/inserts"),
		compared("file → sqlite", "BenchmarkSQLite/file-to-sqlite"),
		bare("sqlite: SELECT", "BenchmarkSQLite/select"),
		compared("sqlite → file, snapshot", "BenchmarkSQLite/sqlite-to-file"),
		bare("redis: reader of a stream", "BenchmarkRedis/reader"),
		compared("redis → file, stream", "BenchmarkRedis/redis-to-file"),
		compared("redis → file, stream, the payload alone", "BenchmarkRedis/redis-to-lines"),
		bare("redis: writer of a stream", "BenchmarkRedis/writer"),
		compared("file → redis, stream", "BenchmarkRedis/file-to-redis"),
		bare("nats: consumer", "BenchmarkNATS/consumer"),
		compared("nats → file, JetStream", "BenchmarkNATS/nats-to-file"),
		bare("nats: publisher", "BenchmarkNATS/publisher"),
		compared("file → nats, JetStream", "BenchmarkNATS/file-to-nats"),
		bare("s3: loop of objects of 1000", "BenchmarkS3/loop-of-writes"),
		compared("file → s3, objects of 1000", "BenchmarkS3/file-to-s3"),
		bare("s3: loop of reads", "BenchmarkS3/loop-of-reads"),
		compared("s3 → file, objects of a line", "BenchmarkS3/s3-to-file"),
		bare("file: scanner of ten files", "BenchmarkLogs/scanner"),
		compared("ten files → file", "BenchmarkLogs/files-to-file"),
		bare("exec: scanner of a pipe", "BenchmarkLogs/pipe"),
		compared("exec → file", "BenchmarkLogs/exec-to-file"),
		bare("syslog: scanner of a connection", "BenchmarkLogs/connection"),
		compared("syslog → file", "BenchmarkLogs/syslog-to-file"),
		bare("journald: journalctl", "BenchmarkJournald/journalctl"),
		compared("journald → file", "BenchmarkJournald/journald-to-file"),
	},
}

// peers moves the same data with the agent and with Bento, which must be in the PATH.
var peers = suite{
	name:  "peers",
	title: "The agent and Bento, the same messages",
	columns: []column{{name: "records/s", format: "%.0f"}, {name: "CPU µs/record", format: "%.1f"},
		{name: "Bento, records/s", format: "%.0f"}, {name: "Bento, CPU µs/record", format: "%.1f"}},
	cases: []testCase{
		peer("kafka → file", "BenchmarkKafka/kafka-to-file", "kafka-to-file"),
		peer("file → kafka", "BenchmarkKafka/file-to-kafka", "file-to-kafka"),
		peer("http → file, requests of 100", "BenchmarkHTTP/requests-to-file", "http-to-file"),
		peer("redis → file, stream", "BenchmarkRedis/redis-to-file", "redis-to-file"),
		peer("mqtt → file, QoS 1", "BenchmarkMQTT/mqtt-to-file", "mqtt-to-file"),
		peer("nats → file, JetStream", "BenchmarkNATS/nats-to-file", "nats-to-file"),
	},
}

// peer is a case that runs a benchmark of package kill with the agent and then with Bento.
func peer(name, pattern, ofPeer string) testCase {
	return testCase{name: name, long: true, measure: func(ctx context.Context, b *bench) (values []float64, err error) {
		for _, pattern := range []string{pattern, "BenchmarkPeer/" + ofPeer} {
			m, err := b.benchmark(ctx, pattern)
			if err != nil {
				return nil, err
			}
			values = append(values, m.rate, m.cpu)
		}
		return values, nil
	}}
}

// bare is a case without an agent.
func bare(name, pattern string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		m, err := b.benchmark(ctx, pattern)
		b.bare = m.rate
		return []float64{m.rate, math.NaN(), m.cpu, math.NaN()}, err
	}}
}

// compared is a case with an agent, compared with the last case without one.
func compared(name, pattern string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		m, err := b.benchmark(ctx, pattern)
		share := math.NaN() // when only cases with an agent were chosen
		if b.bare > 0 {
			share = m.rate / b.bare
		}
		return []float64{m.rate, share, m.cpu, m.memory}, err
	}}
}

var measured = regexp.MustCompile(`\s([0-9.]+) (MiB-at-most|process-CPU-µs/record|records/s)`)

// moved is the result of a benchmark of package kill: records per second, CPU time per record in microseconds, and
// maximum memory in MiB. The latter two are NaN if not measured.
type moved struct{ rate, cpu, memory float64 }

// benchmark runs a benchmark of package kill once.
func (b *bench) benchmark(ctx context.Context, pattern string) (m moved, err error) {
	if err := buildTest(ctx, b.kill, "/agent/agenttest/campaign/kill"); err != nil {
		return m, err
	}
	cmd := exec.CommandContext(ctx, b.kill, "-test.run=^$", "-test.bench="+pattern+"$", "-test.benchtime=1x")
	cmd.Dir = filepath.Join("agent", "agenttest", "campaign", "kill") // servers of other modules are built from here
	out, err := cmd.CombinedOutput()
	m = moved{math.NaN(), math.NaN(), math.NaN()}
	fields := map[string]*float64{"records/s": &m.rate, "process-CPU-µs/record": &m.cpu, "MiB-at-most": &m.memory}
	for _, found := range measured.FindAllSubmatch(out, -1) {
		*fields[string(found[2])], _ = strconv.ParseFloat(string(found[1]), 64)
	}
	if err != nil || math.IsNaN(m.rate) {
		return m, fmt.Errorf("%s: %w:\n%s", pattern, err, out)
	}
	return m, nil
}
