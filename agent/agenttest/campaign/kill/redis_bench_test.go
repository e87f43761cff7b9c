package kill_test

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

const redisRecords = 500_000

// BenchmarkRedis moves entries of a stream with an agent, and with a bare loop of the same client.
func BenchmarkRedis(b *testing.B) {
	for _, one := range []struct {
		name string
		run  func(b *testing.B, c redis.Conn, addr string)
	}{
		{"reader", benchRedisReader}, {"redis-to-file", func(b *testing.B, c redis.Conn, addr string) {
			benchRedisSource(b, c, addr, "")
		}},
		{"redis-to-lines", func(b *testing.B, c redis.Conn, addr string) {
			benchRedisSource(b, c, addr, ", "+payloads)
		}},
		{"writer", benchRedisWriter}, {"file-to-redis", benchRedisDestination},
	} {
		b.Run(one.name, func(b *testing.B) {
			r := server.StartRedis(b, "", "appendfsync everysec")
			c, err := redis.Dial("tcp", r.Addr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			for range b.N {
				b.StopTimer()
				redisDo(b, c, "DEL", "bench")
				one.run(b, c, r.Addr)
				b.StopTimer()
			}
			report(b, redisRecords)
		})
	}
}

func redisDo(b *testing.B, c redis.Conn, command string, args ...any) any {
	b.Helper()
	reply, err := c.Do(command, args...)
	if err != nil {
		b.Fatal(err)
	}
	return reply
}

// redisPipelined is how many commands the bare loop has in flight.
const redisPipelined = 500

func redisFill(b *testing.B, c redis.Conn) {
	b.Helper()
	for range redisRecords / redisPipelined {
		for range redisPipelined {
			if err := c.Send("XADD", "bench", "*", "record", httpLine); err != nil {
				b.Fatal(err)
			}
		}
		redisDo(b, c, "")
	}
}

func benchRedisReader(b *testing.B, c redis.Conn, _ string) {
	redisFill(b, c)
	b.StartTimer()
	at := "0"
	for n := 0; n < redisRecords; {
		streams, _ := redis.Values(redisDo(b, c, "XREAD", "COUNT", redisPipelined, "STREAMS", "bench", at), nil)
		one, _ := redis.Values(streams[0], nil)
		entries, _ := redis.Values(one[1], nil)
		last, _ := redis.Values(entries[len(entries)-1], nil)
		at, _ = redis.String(last[0], nil)
		n += len(entries)
	}
}

func benchRedisSource(b *testing.B, c redis.Conn, addr, format string) {
	redisFill(b, c)
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:redis, settings: {url: "redis://%s", key: bench, field: record}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out%s}}
`, addr, dir, format), lines(dir+"/out", redisRecords))
}

func benchRedisWriter(b *testing.B, c redis.Conn, _ string) {
	b.StartTimer()
	redisFill(b, c)
}

func benchRedisDestination(b *testing.B, c redis.Conn, addr string) {
	dir := agenttest.NewDir(b)
	writeLines(b, dir, redisRecords)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:redis, settings: {url: "redis://%s", key: bench,
          sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, addr), func() bool { n, _ := redis.Int(c.Do("XLEN", "bench")); return n >= redisRecords })
}
