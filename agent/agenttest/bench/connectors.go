package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// connectors moves the same rows with an agent and with what the system brings for it. Each
// line has a server of its own, which must be installed.
var connectors = suite{
	name:    "connectors",
	title:   "Connectors and the tools of their systems, the same rows",
	columns: []column{{name: "records/s", format: "%.0f"}},
	cases: []testCase{
		against("postgres: COPY TO STDOUT", "BenchmarkPostgres/copy-to-stdout"),
		against("postgres → file, snapshot", "BenchmarkPostgres/snapshot"),
		against("postgres: pg_recvlogical", "BenchmarkPostgres/pg_recvlogical"),
		against("postgres → file, changes", "BenchmarkPostgres/changes"),
		against("postgres: COPY FROM STDIN", "BenchmarkPostgres/copy-from-stdin"),
		against("file → postgres", "BenchmarkPostgres/file-to-postgres"),
		against("http: requests of 100 to a handler", "BenchmarkHTTP/requests-to-handler"),
		against("http → file, requests of 100", "BenchmarkHTTP/requests-to-file"),
		against("http: loop of requests of 100", "BenchmarkHTTP/loop-to-handler"),
		against("file → http, requests of 100", "BenchmarkHTTP/file-to-handler"),
		against("mqtt: subscriber", "BenchmarkMQTT/subscriber"),
		against("mqtt → file, QoS 1", "BenchmarkMQTT/mqtt-to-file"),
		against("mqtt: publisher", "BenchmarkMQTT/publisher"),
		against("file → mqtt, QoS 1", "BenchmarkMQTT/file-to-mqtt"),
		against("mysql: inserts", "BenchmarkMySQL/inserts"),
		against("file → mysql", "BenchmarkMySQL/file-to-mysql"),
		against("kafka: producer", "BenchmarkKafka/producer"),
		against("file → kafka", "BenchmarkKafka/file-to-kafka"),
		against("kafka: consumer", "BenchmarkKafka/consumer"),
		against("kafka → file", "BenchmarkKafka/kafka-to-file"),
		against("sqlite: inserts", "BenchmarkSQLite/inserts"),
		against("file → sqlite", "BenchmarkSQLite/file-to-sqlite"),
		against("sqlite: SELECT", "BenchmarkSQLite/select"),
		against("sqlite → file, snapshot", "BenchmarkSQLite/sqlite-to-file"),
		against("redis: reader of a stream", "BenchmarkRedis/reader"),
		against("redis → file, stream", "BenchmarkRedis/redis-to-file"),
		against("redis: writer of a stream", "BenchmarkRedis/writer"),
		against("file → redis, stream", "BenchmarkRedis/file-to-redis"),
		against("nats: consumer", "BenchmarkNATS/consumer"),
		against("nats → file, JetStream", "BenchmarkNATS/nats-to-file"),
		against("nats: publisher", "BenchmarkNATS/publisher"),
		against("file → nats, JetStream", "BenchmarkNATS/file-to-nats"),
		against("s3: loop of objects of 1000", "BenchmarkS3/loop-of-writes"),
		against("file → s3, objects of 1000", "BenchmarkS3/file-to-s3"),
		against("s3: loop of reads", "BenchmarkS3/loop-of-reads"),
		against("s3 → file, objects of a line", "BenchmarkS3/s3-to-file"),
	},
}

var recordsPerSecond = regexp.MustCompile(`\s([0-9.]+) records/s`)

// against is a case that runs a benchmark of package kill once.
func against(name, pattern string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		cmd := exec.CommandContext(ctx, b.kill, "-test.run=^$", "-test.bench="+pattern+"$", "-test.benchtime=1x")
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		found := recordsPerSecond.FindSubmatch(out)
		if err != nil || found == nil {
			return nil, fmt.Errorf("%s: %w:\n%s", pattern, err, out)
		}
		rate, err := strconv.ParseFloat(string(found[1]), 64)
		return []float64{rate}, err
	}}
}
