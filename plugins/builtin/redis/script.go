package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// source is the script. In one transaction it writes elements up to the first one that the server refuses, and then
// saves the ids of the written ones. Its keys are the keys of the elements, or the one key that all elements share,
// followed by the key of the positions, if there is one. Its arguments are the type, the maximum length, the field, the
// number of old elements of the positions to remove, the ids, the number of element keys, and the elements.
const source = `
local written, refusal = 0, ''
local kind, most, field, old, ids = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local keys, n = tonumber(ARGV[6]), #ARGV - 6
for i = 1, n do
  local key, value, reply = KEYS[math.min(i, keys)], ARGV[6 + i], nil
  if kind == 'list' then
    reply = redis.pcall('RPUSH', key, value)
  elseif kind == 'pubsub' then
    reply = redis.pcall('PUBLISH', key, value)
  elseif most > 0 then
    reply = redis.pcall('XADD', key, 'MAXLEN', '~', most, '*', field, value)
  else
    reply = redis.pcall('XADD', key, '*', field, value)
  end
  if type(reply) == 'table' and reply.err then
    refusal = reply.err
    break
  end
  written = i
end
if #KEYS > keys then
  for i = 1, old do
    redis.call('LPOP', KEYS[keys + 1])
  end
  if written > 0 then
    redis.call('RPUSH', KEYS[keys + 1], string.sub(ids, 1, written * 16))
  end
end
return {written, refusal}
`

var script = redis.NewScript(-1, source)

// call runs the script and returns the number of written elements.
func (d *Destination) call(all []element) (int, error) {
	old, positions, ids := 0, "", []byte(nil)
	if d.once != nil {
		old, positions = d.once.old(), d.once.key
		for _, e := range all {
			ids = append(ids, e.id...)
		}
	}
	var reply []any
	var err error
	if d.keyed != nil {
		reply, err = redis.Values(keyedScript.Do(d.conn, keyedArgs(all, positions, old, ids)...))
	} else {
		reply, err = redis.Values(script.Do(d.conn, d.args(all, positions, old, ids)...))
	}
	if err != nil {
		return 0, err
	}
	var written int
	var refusal string
	if _, err := redis.Scan(reply, &written, &refusal); err != nil {
		return 0, fmt.Errorf("cannot parse the response of the server: %w", err)
	}
	if written < 0 || written > len(all) || refusal != "" && written == len(all) {
		return 0, fmt.Errorf("unexpected response of the server: it wrote %d of %d elements", written,
			len(all))
	}
	if refusal != "" {
		return written, redis.Error(refusal)
	}
	return written, nil
}

// args returns the arguments of script. positions is empty with at-least-once delivery.
func (d *Destination) args(all []element, positions string, old int, ids []byte) []any {
	keys := all
	if !slices.ContainsFunc(all, func(e element) bool { return !bytes.Equal(e.key, all[0].key) }) {
		keys = all[:1]
	}
	args := make([]any, 0, 8+len(keys)+len(all))
	args = append(args, len(keys))
	for _, e := range keys {
		args = append(args, e.key)
	}
	if positions != "" {
		args[0] = len(keys) + 1
		args = append(args, positions)
	}
	args = append(args, d.settings.Type, strconv.FormatInt(d.settings.MaxLength, 10), d.settings.Field, old, ids,
		len(keys))
	for _, e := range all {
		args = append(args, e.value)
	}
	return args
}
