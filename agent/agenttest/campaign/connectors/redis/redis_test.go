package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/redis"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// client is a bare client of a server.
type client struct {
	redigo.Conn
	t    testing.TB
	addr string
}

func start(t testing.TB) *client {
	t.Helper()
	return connect(t, server.StartRedis(t, "", "").Addr)
}

func connect(t testing.TB, addr string) *client {
	t.Helper()
	c, err := redigo.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, t, addr}
}

func (c *client) do(command string, args ...any) any {
	c.t.Helper()
	reply, err := c.Do(command, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	return reply
}

// settings returns the settings that reach the server, and more, given as names and values in turn.
func (c *client) settings(more ...string) map[string]string {
	all := map[string]string{"url": "redis://" + c.addr, "timeout": "2s"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func (c *client) add(stream string, first, n int) {
	c.t.Helper()
	for i := first; i < first+n; i++ {
		c.do("XADD", stream, "*", "n", i)
	}
}

// source is an opened source.
func (c *client) source(pos record.Position, more ...string) *redis.Source {
	c.t.Helper()
	return plugintest.OpenSource(c.t, &redis.Source{}, c.settings(more...), pos)
}

func read(t testing.TB, s sdk.Source, n int) (all []record.Record, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < n && err == nil {
		var records []record.Record
		records, err = s.Read(ctx)
		all = append(all, records...)
	}
	return all, err
}

// want reads one record per number, and checks the number in the field n or in the payload.
func want(t testing.TB, s sdk.Source, numbers ...int) []record.Record {
	t.Helper()
	records, err := read(t, s, len(numbers))
	if err != nil {
		t.Fatalf("after %d records: %v", len(records), err)
	}
	var got []int
	for i := range records {
		got = append(got, numberOf(&records[i]))
	}
	if !slices.Equal(got, numbers) {
		t.Fatalf("got %v, want %v", got, numbers)
	}
	return records
}

func numberOf(r *record.Record) int {
	text := ""
	if object, ok := r.After.Structured(); ok {
		text, _ = object["n"].(string)
	} else if raw, ok := r.After.Raw(); ok {
		text = string(raw)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func ack(t testing.TB, s sdk.Source, n int) {
	t.Helper()
	if err := s.Ack(t.Context(), make([]record.Position, n)); err != nil {
		t.Fatal(err)
	}
}

func teardown(t testing.TB, s interface{ Teardown(context.Context) error }) {
	t.Helper()
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	n := 0
	plugintest.Run(t, plugintest.Target{
		Connector: redis.Connector(),
		Source: func(t testing.TB, count int) map[string]string {
			n++
			key := fmt.Sprintf("in%d", n)
			connect(t, c.addr).add(key, 1, count)
			return c.settings("key", key)
		},
		Destination: func(testing.TB) map[string]string {
			n++
			return c.settings("key", fmt.Sprintf("out%d", n), "type", "list", "sdk.record.format", "template",
				"sdk.record.format.options", `{{ printf "%s" .Payload.After }}`)
		},
		Written: func(t testing.TB, settings map[string]string) []string {
			all, err := redigo.Strings(connect(t, c.addr).do("LRANGE", settings["key"], 0, -1), nil)
			if err != nil {
				t.Fatal(err)
			}
			return all
		},
	})
}

func TestStream(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	c.add("s", 1, 3)
	c.do("XADD", "s", "*", "n", 4, "name", "x", "binary", "\xff", "twice", 1, "twice", 2)
	s := c.source(nil, "key", "s", "batch", "3")
	records := want(t, s, 1, 2, 3)
	if md := records[0].Metadata; md.Get(record.KeyCollection) != "s" ||
		!strings.HasPrefix(string(records[0].Position), md.Get("redis.id")+":1") {
		t.Errorf("metadata %v of position %s", md, records[0].Position)
	}
	if r := s.Progress(); r.Records == nil || *r.Records != 1 {
		t.Errorf("progress is %+v", r)
	}
	last := want(t, s, 4)
	object, _ := last[0].After.Structured()
	if b, _ := object["binary"].([]byte); object["name"] != "x" || string(b) != "\xff" ||
		fmt.Sprint(object["twice"]) != "[1 2]" {
		t.Errorf("got %v", object)
	}
	want(t, c.source(records[1].Position, "key", "s"), 3, 4)
	want(t, c.source(record.Position(records[1].Metadata.Get("redis.id")), "key", "s", "field", "n"), 3, 4)
	newest := c.source(nil, "key", "s", "start", "newest")
	done := make(chan []record.Record)
	go func() { records, _ := read(t, newest, 1); done <- records }()
	wait.For(t, "it waits", func() bool { return newest.Progress().Records != nil })
	c.do("XADD", "s", "*", "n", 5)
	if got := <-done; len(got) != 1 || numberOf(&got[0]) != 5 {
		t.Errorf("got %v", got)
	}
}

// TestGap removes entries that a slow source has not read.
func TestGap(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	for name, tt := range map[string]struct {
		happens func(key string)
		says    string
		rest    []int // with gap continue
	}{
		"trimmed up to the place": {func(key string) {
			c.do("XTRIM", key, "MAXLEN", 7)
		}, "", []int{4, 5, 6, 7, 8, 9, 10}},
		"trimmed behind it": {func(key string) { c.do("XTRIM", key, "MAXLEN", 5) },
			"up to 2 entries of stream", []int{6, 7, 8, 9, 10}},
		"trimmed to nothing": {func(key string) { c.do("XTRIM", key, "MAXLEN", 0); c.add(key, 11, 1) },
			"up to 7 entries", []int{11}},
		"recreated": {func(key string) { c.do("DEL", key); c.do("XADD", key, "1-1", "n", 11) },
			"it was recreated", []int{11}},
		"gone": {func(key string) { c.do("DEL", key) }, "no longer exists", nil},
	} {
		key := name
		c.add(key, 1, 3)
		first := c.source(nil, "key", key)
		pos := want(t, first, 1, 2, 3)[2].Position
		c.add(key, 4, 7)
		tt.happens(key)
		s := c.source(pos, "key", key)
		if tt.says == "" {
			want(t, s, tt.rest...)
			continue
		}
		if _, err := read(t, s, 1); err == nil || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(err.Error(), "set gap to continue") {
			t.Errorf("%s: got %v, want %q", name, err, tt.says)
		}
		if _, err := read(t, first, 1); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s, while running: got %v, want %q", name, err, tt.says)
		}
		if tt.rest != nil {
			s := c.source(pos, "key", key, "gap", "continue")
			want(t, s, tt.rest...)
			if text := fmt.Sprint(s.Progress().Skipped); !strings.Contains(text, tt.says) {
				t.Errorf("%s: left out: %s, want %q", name, text, tt.says)
			}
		}
	}
}

// TestAsksAhead removes entries that the source has requested already, and later ones.
func TestAsksAhead(t *testing.T) {
	load.Parallel(t, load.Server)
	for _, gap := range []string{"stop", "continue"} {
		c := start(t)
		c.add("s", 1, 10)
		s := c.source(nil, "key", "s", "batch", "3", "gap", gap)
		want(t, s, 1, 2, 3)
		c.do("XTRIM", "s", "MAXLEN", 2)
		want(t, s, 4, 5, 6)
		if gap == "continue" {
			want(t, s, 9, 10)
			continue
		}
		if _, err := read(t, s, 1); err == nil || !strings.Contains(err.Error(), "up to 2 entries of stream") {
			t.Errorf("got %v", err)
		}
	}
}

func TestList(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	settings := []string{"key", "l", "type", "list", "processing", "p", "batch", "10"}
	c.do("RPUSH", "l", 1, 2, 3, 4, 5)
	s := c.source(nil, settings...)
	records := want(t, s, 1, 2, 3, 4, 5)
	ack(t, s, 2)
	if n := c.do("LLEN", "p").(int64); n != 3 {
		t.Errorf("%d elements are in processing", n)
	}
	c.do("RPUSH", "l", 6)
	want(t, s, 6)
	teardown(t, s)
	s = c.source(records[1].Position, settings...)
	want(t, s, 3, 4, 5, 6)
	ack(t, s, 4)
	teardown(t, s)
	if n := c.do("LLEN", "p").(int64); n != 0 {
		t.Errorf("%d elements are in processing", n)
	}
}

// TestListLag reports the number of remaining elements, if the user has the permission.
func TestListLag(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	c.do("ACL", "SETUSER", "reader", "on", ">word", "~*", "+@all", "-llen")
	c.do("RPUSH", "l", 1, 2, 3, 4, 5)
	s := c.source(nil, "key", "l", "type", "list", "processing", "p", "batch", "2")
	for _, left := range []int64{3, 1, 0} {
		if _, err := read(t, s, 1); err != nil {
			t.Fatal(err)
		}
		if r := s.Progress(); r.Records == nil || *r.Records != left {
			t.Errorf("%s, want %d records", r.String(), left)
		}
	}
	c.do("RPUSH", "m", 1)
	s = c.source(nil, "key", "m", "type", "list", "auth.username", "reader", "auth.password", "word")
	want(t, s, 1)
	if r := s.Progress(); r.Records != nil || r.At.IsZero() || r.Warning != "" {
		t.Errorf("without the right to ask: %+v", r)
	}
}

// TestListReconnects cuts connections between answers: nothing is lost, and nothing read twice.
func TestListReconnects(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	proxy := network.NewProxy(t, c.addr)
	s := c.source(nil, "url", "redis://"+proxy.Addr(), "key", "l", "type", "list", "batch", "7")
	const n = 500
	go func() {
		other := connect(t, c.addr)
		for i := range n {
			_, _ = other.Do("RPUSH", "l", i)
			if i%20 == 0 {
				proxy.Cut()
			}
		}
	}()
	var got []int
	for len(got) < n {
		records, err := read(t, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			got = append(got, numberOf(&records[i]))
		}
		ack(t, s, len(records))
	}
	for i := range got {
		if got[i] != i {
			t.Fatalf("element %d is %d", i, got[i])
		}
	}
	teardown(t, s)
	keys, _ := redigo.Strings(c.do("KEYS", "l*"), nil)
	if len(keys) != 1 || !strings.HasSuffix(keys[0], ":removed") {
		t.Errorf("the keys are %v", keys)
	}
}

func TestListIsGivenBack(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	settings := c.settings("key", "l", "type", "list")
	c.do("RPUSH", "l", 1, 2, 3, 4)
	s := plugintest.OpenSource(t, &redis.Source{}, settings, nil)
	want(t, s, 1, 2, 3, 4)
	ack(t, s, 1)
	teardown(t, s)
	if err := (&redis.Source{}).LifecycleOnUpdated(t.Context(), settings, settings); err != nil {
		t.Fatal(err)
	}
	if n := c.do("LLEN", "l").(int64); n != 0 {
		t.Errorf("%d elements are given back without need", n)
	}
	if err := (&redis.Source{}).LifecycleOnDeleted(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	left, _ := redigo.Strings(c.do("LRANGE", "l", 0, -1), nil)
	keys, _ := redigo.Strings(c.do("KEYS", "*"), nil)
	if !slices.Equal(left, []string{"2", "3", "4"}) || !slices.Equal(keys, []string{"l"}) {
		t.Errorf("%v is left, keys %v", left, keys)
	}
}

func TestChannels(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	s := c.source(nil, "key", "a,b.*", "type", "pubsub")
	done := make(chan []record.Record)
	go func() { records, _ := read(t, s, 2); done <- records }()
	wait.For(t, "it is subscribed", func() bool {
		return c.do("PUBSUB", "NUMPAT").(int64) == 1 && c.do("PUBLISH", "a", "1").(int64) == 1
	})
	c.do("PUBLISH", "b.x", "2")
	records := <-done
	if len(records) != 2 || records[0].Metadata.Get(record.KeyCollection) != "a" || numberOf(&records[1]) != 2 ||
		records[1].Metadata.Get(record.KeyCollection) != "b.x" {
		t.Errorf("got %v", records)
	}
}

// subscribers returns the ids of the connections that subscribe to channels, and their age in seconds.
func (c *client) subscribers() (all map[string]int) {
	all = map[string]int{}
	text, err := redigo.String(c.do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var id string
		for field := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "id":
				id = value
			case "age":
				all[id], _ = strconv.Atoi(value)
			}
		}
	}
	return all
}

// TestSilentChannels publishes nothing for longer than the timeout: the connection stays open, also for a user without
// permission to ping.
func TestSilentChannels(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	for name, rights := range map[string]string{"may ping": "+ping", "may not ping": "-ping"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			c.do("ACL", "SETUSER", "reader", "on", ">word", "allchannels", "+subscribe", rights)
			s := c.source(nil, "key", "a", "type", "pubsub", "timeout", "2s", "auth.username", "reader",
				"auth.password", "word")
			done := make(chan error, 1)
			go func() { _, err := read(t, s, 1); done <- err }()
			var first string
			wait.For(t, "a connection is 8 seconds old", func() bool {
				for id, age := range c.subscribers() {
					if first == "" {
						first = id
					}
					if id != first {
						t.Fatalf("connection %s was replaced by %s", first, id)
					}
					return age >= 8 // the server is pinged after 5 s of silence
				}
				return false
			})
			c.do("PUBLISH", "a", "1")
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEndOfRead reads with a context that has ended, while messages are available: the connection is closed, once.
func TestEndOfRead(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		s := c.source(nil, "key", "a", "type", "pubsub")
		done := make(chan error, 1)
		go func() { _, err := read(t, s, 1); done <- err }()
		wait.For(t, "it is subscribed", func() bool { return len(c.subscribers()) == 1 })
		c.do("EVAL", "for i = 1, 10 do redis.call('PUBLISH', 'a', i) end", 0)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(ended); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		wait.For(t, "the connection is closed", func() bool { return len(c.subscribers()) == 0 })
	}
}

// TestFrozenChannels stalls the connection to the server: the source notices, and subscribes again when the connection
// recovers.
func TestFrozenChannels(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	proxy := network.NewProxy(t, c.addr)
	s := c.source(nil, "url", "redis://"+proxy.Addr(), "key", "a", "type", "pubsub", "timeout", "500ms")
	done := make(chan []record.Record, 1)
	go func() { records, _ := read(t, s, 1); done <- records }()
	wait.For(t, "it is subscribed", func() bool { return len(c.subscribers()) == 1 })
	proxy.Hold(true)
	wait.For(t, "the silence is noticed", func() bool { return s.Progress().Warning != "" })
	proxy.Hold(false)
	wait.For(t, "it is subscribed again", func() bool { return s.Progress().Warning == "" })
	wait.For(t, "a message is published", func() bool { return c.do("PUBLISH", "a", "1").(int64) > 0 })
	if records := <-done; len(records) != 1 {
		t.Errorf("got %v", records)
	}
}

func destination(t testing.TB, settings map[string]string) (context.Context, sdk.Destination) {
	t.Helper()
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:out", Logger: sdk.Logger(t.Context())})
	d := sdk.Standard(redis.Connector()).NewDestination()
	if err := d.Configure(ctx, d.Parameters().ApplyDefaults(settings)); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(ctx)) })
	return ctx, d
}

func records(first, n int) (all []record.Record) {
	for i := first; i < first+n; i++ {
		all = append(all, record.Record{Position: record.Position(strconv.Itoa(i)), Operation: record.OperationCreate,
			After: record.Raw(strconv.AppendInt(nil, int64(i), 10))})
	}
	return all
}

// plain are settings that write payloads unchanged.
var plain = []string{"sdk.record.format", "template", "sdk.record.format.options", `{{ printf "%s" .Payload.After }}`}

func TestWrites(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	ctx, d := destination(t, c.settings(append(plain, "key", "s:{{ .Operation }}", "maxLength", "100")...))
	if n, err := d.Write(ctx, records(1, 3000)); n != 3000 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n := c.do("XLEN", "s:create").(int64); n < 100 || n > 300 {
		t.Errorf("the stream has %d entries", n)
	}
	entries, _ := redigo.Values(c.do("XREVRANGE", "s:create", "+", "-", "COUNT", 1), nil)
	entry, _ := redigo.Values(entries[0], nil)
	if fields, _ := redigo.Strings(entry[1], nil); !slices.Equal(fields, []string{"record", "3000"}) {
		t.Errorf("got %q", fields)
	}
	ctx, d = destination(t, c.settings(append(plain, "key", "nobody", "type", "pubsub")...))
	if n, err := d.Write(ctx, records(1, 3)); n != 3 || err != nil {
		t.Errorf("published %d: %v", n, err)
	}
}

// TestRefusedRecord writes one record to a key of another type: the following records are not tried.
func TestRefusedRecord(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	c.do("SET", "k:b", "text")
	ctx, d := destination(t,
		c.settings(append(plain, "key", "k:{{ .Metadata.to }}", "type", "list", "positionKey", "pos")...))
	all := records(1, 4)
	for i, to := range []string{"a", "a", "b", "a"} {
		all[i].Metadata.Set("to", to)
	}
	n, err := d.Write(ctx, all)
	if n != 2 || err == nil || !strings.Contains(err.Error(), "WRONGTYPE") ||
		errors.As(err, new(interface{ Lost() bool })) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, all[3:]); n != 1 || err != nil {
		t.Errorf("then wrote %d: %v", n, err)
	}
	if got, _ := redigo.Strings(c.do("LRANGE", "k:a", 0, -1), nil); !slices.Equal(got, []string{"1", "2", "4"}) {
		t.Errorf("got %v", got)
	}
}

// change is a record of a changed row.
func change(op record.Operation, id int, after map[string]any) record.Record {
	r := record.Record{Position: record.Position(fmt.Sprint(op, id, len(after))), Operation: op,
		Key: record.Structured(map[string]any{"id": id})}
	if after != nil {
		r.After = record.Structured(after)
	}
	return r
}

// TestKeys writes changes of rows to strings and hashes, and deletes keys.
func TestKeys(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	write := func(all []record.Record, more ...string) {
		t.Helper()
		ctx, d := destination(t, c.settings(append(more, "key", "k:{{ .Key.id }}", "positionKey", "pos")...))
		if n, err := d.Write(ctx, all); n != len(all) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(all), err)
		}
	}
	text := func(key string) string { s, _ := redigo.String(c.Do("GET", key)); return s }
	ttl := func(key string) int { n, _ := redigo.Int(c.do("PTTL", key), nil); return n }
	object := func(key string) string {
		m, _ := redigo.StringMap(c.do("HGETALL", key), nil)
		return fmt.Sprint(m) // in the order of the keys
	}
	one, two := map[string]any{"a": "x", "n": 1}, map[string]any{"a": "y"}
	write([]record.Record{change(record.OperationCreate, 1, one), change(record.OperationUpdate, 1, two),
		change(record.OperationSnapshot, 2, one), change(record.OperationDelete, 2, one)},
		"type", "string", "value", "{{ toJson .Payload.After }}", "expire", "1h")
	if got := text("k:1"); got != `{"a":"y"}` || ttl("k:1") < 3_500_000 || ttl("k:1") > 3_600_000 {
		t.Errorf("the string is %s and expires after %d ms", got, ttl("k:1"))
	}
	if n := c.do("EXISTS", "k:2").(int64); n != 0 {
		t.Error("a deleted row is still there")
	}
	c.do("FLUSHALL")
	many := map[string]any{}
	for i := range 5000 {
		many[fmt.Sprintf("f%04d", i)] = i
	}
	write([]record.Record{change(record.OperationCreate, 1, many), change(record.OperationCreate, 2, one)},
		"type", "hash", "expire", "1h")
	if n := c.do("HLEN", "k:1").(int64); n != 5000 {
		t.Errorf("the hash has %d fields", n)
	}
	write([]record.Record{change(record.OperationUpdate, 1, two)}, "type", "hash")
	if got := object("k:1"); got != "map[a:y]" || ttl("k:1") != -1 {
		t.Errorf("the replaced hash is %s and expires after %d ms", got, ttl("k:1"))
	}
	write([]record.Record{change(record.OperationUpdate, 2, two)}, "type", "hash", "fields.b",
		"{{ .Payload.After.a }}!")
	if got := object("k:2"); got != "map[a:x b:y! n:1]" || ttl("k:2") < 3_500_000 {
		t.Errorf("the hash is %s and expires after %d ms", got, ttl("k:2"))
	}
	write([]record.Record{change(record.OperationUpdate, 2, nil)}, "type", "hash")
	write([]record.Record{change(record.OperationCreate, 1, two)}, "type", "delete")
	if n := c.do("EXISTS", "k:1", "k:2").(int64); n != 0 {
		t.Errorf("%d deleted keys are there", n)
	}
}

// TestRefusedKey refuses a record whose key has another type. It changes nothing, and the records before are written.
func TestRefusedKey(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	c.do("SET", "k:2", "text")
	ctx, d := destination(t, c.settings("key", "k:{{ .Key.id }}", "type", "hash", "positionKey", "pos"))
	var all []record.Record
	for id := 1; id <= 3; id++ {
		all = append(all, change(record.OperationCreate, id, map[string]any{"a": 1}))
	}
	if n, err := d.Write(ctx, all); n != 1 || err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("wrote %d: %v", n, err)
	}
	if got, _ := redigo.String(c.do("GET", "k:2"), nil); got != "text" {
		t.Errorf("the key has %q", got)
	}
	if n, err := d.Write(ctx, all[2:]); n != 1 || err != nil || c.do("EXISTS", "k:3").(int64) != 1 {
		t.Errorf("then wrote %d: %v", n, err)
	}
}

// TestOnce writes records again, as after a kill. Some records share a position.
func TestOnce(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	settings := c.settings(append(plain, "key", "l", "type", "list", "positionKey", "pos")...)
	all := records(1, 10)
	all[4].Position, all[5].Position = all[3].Position, all[3].Position
	for _, part := range [][2]int{{0, 5}, {3, 8}, {0, 10}} {
		ctx, d := destination(t, settings)
		if n, err := d.Write(ctx, all[part[0]:part[1]]); n != part[1]-part[0] || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	if got, _ := redigo.Strings(c.do("LRANGE", "l", 0, -1), nil); strings.Join(got, " ") != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("got %v", got)
	}
	ctx, d := destination(t, settings)
	moved := c.settings("key", "other", "type", "list", "positionKey", "pos")
	if err := d.LifecycleOnUpdated(ctx, settings, moved); err != nil {
		t.Fatal(err)
	}
	if n := c.do("DBSIZE").(int64); n != 2 {
		t.Errorf("an update that leaves positions where they are leaves %d keys", n)
	}
	if err := d.LifecycleOnUpdated(ctx, settings,
		c.settings("key", "l", "type", "list", "positionKey", "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if n := c.do("DBSIZE").(int64); n != 1 {
		t.Errorf("%d keys are left of positions that are kept elsewhere", n-1)
	}
	ctx, d = destination(t, settings)
	if n, err := d.Write(ctx, records(11, 1)); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if err := d.LifecycleOnDeleted(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if keys, _ := redigo.Strings(c.do("KEYS", "*"), nil); !slices.Equal(keys, []string{"l"}) {
		t.Errorf("the keys are %v", keys)
	}
}

// TestFullServer waits while the server has no memory left, and refuses no record for it.
func TestFullServer(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	c.do("CONFIG", "SET", "maxmemory", 1)
	ctx, d := destination(t, c.settings(append(plain, "key", "l", "type", "list", "retry.timeout", "200ms")...))
	_, err := d.Write(ctx, records(1, 1))
	if err == nil || !errors.As(err, new(interface{ Lost() bool })) || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("got %v", err)
	}
	c.do("CONFIG", "SET", "maxmemory", 0)
	if n, err := d.Write(ctx, records(1, 1)); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
}

func TestPassword(t *testing.T) {
	load.Parallel(t, load.Server)
	r := server.StartRedis(t, "word", "")
	c := &client{t: t, addr: r.Addr}
	s := c.source(nil, "key", "s", "auth.username", "conduit", "auth.password", "secret-not-it")
	if _, err := read(t, s, 1); err == nil || !strings.Contains(err.Error(), "the server refused") ||
		strings.Contains(err.Error(), "secret-not-it") {
		t.Errorf("got %v", err)
	}
	ctx, d := destination(t,
		c.settings(append(plain, "key", "l", "type", "list", "auth.username", "conduit", "auth.password", "word")...))
	if n, err := d.Write(ctx, records(1, 1)); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestTLS logs in with a certificate, and trusts only the authorities that the settings name.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir, port := server.Dir(t), network.FreePort(t)
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	for name, text := range map[string]string{"cert": serverCert, "key": serverKey, "ca": clientCert} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, server.StartRedis(t, "", fmt.Sprintf(
		"tls-port %d\ntls-cert-file %[2]s/cert\ntls-key-file %[2]s/key\ntls-ca-cert-file %[2]s/ca", port, dir)).Addr)
	settings := append(plain, "url", fmt.Sprintf("rediss://127.0.0.1:%d/1", port), "key", "s", "retry.timeout", "0s",
		"tls.ca")
	ctx, d := destination(t, c.settings(append(settings, serverCert, "tls.cert", clientCert, "tls.key", clientKey)...))
	if n, err := d.Write(ctx, records(1, 1)); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	c.do("SELECT", 1)
	if n := c.do("XLEN", "s").(int64); n != 1 {
		t.Errorf("there are %d entries", n)
	}
	for _, more := range [][]string{{serverCert}, {clientCert, "tls.cert", clientCert, "tls.key", clientKey}} {
		ctx, d = destination(t, c.settings(append(settings, more...)...))
		if _, err := d.Write(ctx, records(1, 1)); err == nil || !errors.As(err, new(interface{ Lost() bool })) {
			t.Errorf("got %v", err)
		}
	}
}

// TestBadItems reads entries, elements and messages of any bytes and sizes. Each must become a record that can be
// encoded, and the items behind it must follow.
func TestBadItems(t *testing.T) {
	load.Parallel(t, load.Server)
	c := start(t)
	odd := []string{"\xff\x00", "", strings.Repeat("x", 5<<20), `{"a":`, "NaN"}
	for _, v := range odd {
		c.do("XADD", "stream", "*", "\xff"+v[:min(len(v), 10)], v, "n", "1")
		c.do("RPUSH", "list", v)
	}
	c.do("XADD", "stream", "*", "other", "no n")
	c.add("stream", 7, 1)
	c.do("RPUSH", "list", "7")
	for name, settings := range map[string][]string{
		"stream": {"key", "stream"}, "field": {"key", "stream", "field", "n"}, "list": {"type", "list", "key", "list"},
	} {
		n := len(odd) + 2
		if name == "list" {
			n--
		}
		records, err := read(t, c.source(nil, settings...), n)
		if err != nil || len(records) != n {
			t.Fatalf("%s: after %d records: %v", name, len(records), err)
		}
		for i := range records {
			_, inJSON := record.AppendJSON(nil, &records[i])
			_, inWire := record.AppendWire(nil, &records[i])
			if err := errors.Join(inJSON, inWire); err != nil {
				t.Errorf("%s: record %d: %v", name, i, err)
			}
		}
		if last := &records[n-1]; name != "list" && numberOf(last) != 7 {
			t.Errorf("%s: the last record is %v", name, last)
		}
	}
}
