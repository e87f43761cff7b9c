package kill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// redisSystem is a server with a password, which is in a file.
type redisSystem struct {
	*server.Redis
	passwords
}

func startRedis(t testing.TB, dir string) *redisSystem {
	t.Helper()
	r := &redisSystem{passwords: newPasswords(t, dir)}
	r.Redis = server.StartRedis(t, r.word, "")
	return r
}

// rotate replaces the password, and ends all connections.
func (r *redisSystem) rotate(ctx context.Context) error {
	if err := r.SetPassword(r.replaced()); err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	r.Stop()
	return r.Start(ctx)
}

// do sends commands in one transaction, and returns the reply to the first one.
func (r *redisSystem) do(ctx context.Context, commands ...[]any) (any, error) {
	c, err := redis.DialContext(ctx, "tcp", r.Addr, redis.DialUsername("conduit"), redis.DialPassword(r.word),
		redis.DialReadTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.Send("MULTI"); err != nil {
		return nil, err
	}
	for _, command := range commands {
		if err := c.Send(command[0].(string), command[1:]...); err != nil {
			return nil, err
		}
	}
	replies, err := redis.Values(c.Do("EXEC"))
	if err != nil || len(replies) != len(commands) {
		return nil, errors.Join(err, fmt.Errorf("%d replies", len(replies)))
	}
	return replies[0], nil
}

func (r *redisSystem) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "redis://" + addr, "auth.username": "conduit",
			"auth.password": "${file:" + r.path + "}", "timeout": "2s"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
}

// produce returns a Produce function that writes numbers with a command.
func (r *redisSystem) produce(command func(payload string) []any) func(context.Context, int, int) error {
	return func(ctx context.Context, first, n int) error {
		var commands [][]any
		for i := range n {
			commands = append(commands, command(fmt.Sprintf(`{"n":%d}`, first+i)))
		}
		_, err := r.do(ctx, commands...)
		return err
	}
}

// TestRedisStreamSource reads a stream.
func TestRedisStreamSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:redis",
		System: func(t *testing.T, dir string) *kill.System {
			r := startRedis(t, dir)
			return &kill.System{
				Addr: r.Addr, Server: r, Rotate: r.rotate,
				Settings: r.settings(map[string]string{"key": "ledger", "field": "payload"}),
				Produce:  r.produce(func(p string) []any { return []any{"XADD", "ledger", "*", "payload", p} }),
			}
		},
	})
}

// TestRedisListSource takes elements from a list. After a failed run, the source reads the unacknowledged elements
// again.
func TestRedisListSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:redis", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			r := startRedis(t, dir)
			return &kill.System{
				Addr: r.Addr, Server: r, Rotate: r.rotate,
				Settings: r.settings(map[string]string{"key": "ledger", "type": "list"}),
				Produce:  r.produce(func(p string) []any { return []any{"RPUSH", "ledger", p} }),
			}
		},
	})
}

// TestRedisKeysDestination writes strings and hashes. The order of writing is not known afterwards.
func TestRedisKeysDestination(t *testing.T) {
	t.Parallel()
	for kind, more := range map[string]map[string]string{"hash": {},
		"string": {"value": "{{ toJson .Payload.After }}"}} {
		t.Run(kind, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:redis", Once: true, Unordered: true,
				System: func(t *testing.T, dir string) *kill.System {
					r := startRedis(t, dir)
					settings := map[string]string{"key": "out:{{ .Payload.After.n }}", "type": kind,
						"retry.timeout": "1s"}
					maps.Copy(settings, more)
					return &kill.System{
						Addr: r.Addr, Server: r, Rotate: r.rotate,
						Stored:   func(ctx context.Context) ([]int, error) { return r.keys(ctx, kind) },
						Settings: r.settings(settings),
					}
				},
			})
		})
	}
}

// keys returns the numbers in the keys. The name of each key ends with its number.
func (r *redisSystem) keys(ctx context.Context, kind string) (all []int, err error) {
	names, err := redis.Strings(r.do(ctx, []any{"KEYS", "out:*"}))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	command := []any{"MGET"}
	if kind == "hash" {
		command = []any{"EVAL", `local all = {}
			for i, key in ipairs(KEYS) do all[i] = '{"n":' .. redis.call('HGET', key, 'n') .. '}' end
			return all`, len(names)}
	}
	for _, name := range names {
		command = append(command, name)
	}
	if all, err = stored(redis.ByteSlices(r.do(ctx, command))); err != nil {
		return nil, err
	}
	for i, n := range all {
		if names[i] != fmt.Sprintf("out:%d", n) {
			return nil, fmt.Errorf("the key %s has %d", names[i], n)
		}
	}
	return all, nil
}

// TestRedisDestination writes to a list and to a stream exactly once.
func TestRedisDestination(t *testing.T) {
	t.Parallel()
	for kind, read := range map[string]func(*redisSystem, context.Context) ([][]byte,
		error){"list": (*redisSystem).elements, "stream": (*redisSystem).entries} {
		t.Run(kind, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:redis", Once: true,
				System: func(t *testing.T, dir string) *kill.System {
					r := startRedis(t, dir)
					return &kill.System{
						Addr: r.Addr, Server: r, Rotate: r.rotate,
						Stored: func(ctx context.Context) ([]int, error) { return stored(read(r, ctx)) },
						Settings: r.settings(map[string]string{"key": "out", "type": kind, "positionKey": "positions",
							"retry.timeout":             "1s",
							"sdk.record.format":         "template",
							"sdk.record.format.options": "{{ toJson .Payload.After }}"}),
					}
				},
			})
		})
	}
}

// elements returns the elements of the list.
func (r *redisSystem) elements(ctx context.Context) ([][]byte, error) {
	return redis.ByteSlices(r.do(ctx, []any{"LRANGE", "out", 0, -1}))
}

// entries returns the records in the entries of the stream.
func (r *redisSystem) entries(ctx context.Context) ([][]byte, error) {
	entries, err := redis.Values(r.do(ctx, []any{"XRANGE", "out", "-", "+"}))
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, e := range entries { // an id, and names and values
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) != 2 {
			return nil, errors.Join(err, fmt.Errorf("an entry has %d parts", len(entry)))
		}
		fields, err := redis.ByteSlices(entry[1], nil)
		if err != nil || len(fields) != 2 {
			return nil, errors.Join(err, fmt.Errorf("an entry has the fields %q", fields))
		}
		all = append(all, fields[1])
	}
	return all, nil
}

// stored returns the numbers of records.
func stored(records [][]byte, err error) ([]int, error) {
	if err != nil {
		return nil, err
	}
	var all []int
	for _, r := range records {
		var payload struct{ N int }
		if err := json.Unmarshal(r, &payload); err != nil {
			return nil, err
		}
		all = append(all, payload.N)
	}
	return all, nil
}

// passwords are the passwords of a server. The current one is in a file.
type passwords struct {
	path, word string
	n          int
}

func newPasswords(t testing.TB, dir string) passwords {
	t.Helper()
	p := passwords{path: filepath.Join(dir, "password"), word: "word"}
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	return p
}

// replaced creates a new current password, and returns it.
func (p *passwords) replaced() string {
	p.n++
	p.word = fmt.Sprintf("word-%d", p.n)
	return p.word
}

func (p *passwords) save() error {
	if err := os.WriteFile(p.path+".new", []byte(p.word), 0o600); err != nil {
		return err
	}
	return os.Rename(p.path+".new", p.path)
}
