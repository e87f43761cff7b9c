package redis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// keyed writes each record to its own key, as a string or as a hash. A record that deletes removes the key.
type keyed struct {
	kind   string
	value  *template.Template // of a string; nil: the record
	fields []hashField        // of a hash, in order of their names; nil: the fields of the payload
	expire *template.Template // nil: never
	after  time.Duration      // the constant value of expire
}

type hashField struct {
	name string
	text *template.Template
}

// isKeyed reports whether a type of target has a key for each record.
func isKeyed(kind string) bool { return kind == "string" || kind == "hash" || kind == "delete" }

// newKeyed returns how to write records, or nil when keys hold many records.
func newKeyed(s *destinationSettings) (k *keyed, err error) {
	for _, one := range []struct {
		setting, kind string
		given         bool
	}{
		{"value", "string", s.Value != ""},
		{"fields", "hash", len(s.Fields) > 0},
		{"expire", "string or hash", s.Expire != ""},
	} {
		if one.given && !slices.Contains(strings.Split(one.kind, " or "), s.Type) {
			return nil, sdk.SettingError{Setting: one.setting, Message: "needs type " + one.kind}
		}
	}
	if !isKeyed(s.Type) {
		return nil, nil
	}
	k = &keyed{kind: s.Type}
	if s.Value != "" {
		if k.value, err = common.ParseTemplate("value", s.Value, nil); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		text, err := common.ParseTemplate("fields."+name, s.Fields[name], nil)
		if err != nil {
			return nil, err
		}
		k.fields = append(k.fields, hashField{name, text})
	}
	if s.Expire == "" {
		return k, nil
	}
	k.expire, err = common.ParseTemplate("expire", s.Expire, func(text string) (err error) {
		k.after, err = lifetime(text)
		return err
	})
	return k, err
}

// lifetime parses the time after which a key expires. The server counts milliseconds.
func lifetime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return 0, fmt.Errorf("%.64q is no time to live: want a duration of at least 1ms, such as 30m", text)
	}
	return d, nil
}

// The operations of the script on a key.
const (
	opDelete  = "delete"  // remove the key
	opSet     = "set"     // set a string
	opMerge   = "merge"   // set some fields of a hash
	opReplace = "replace" // set the fields of a hash, and remove all others
)

// element completes the element of a record, which has its key.
func (k *keyed) element(e *element, limit *template.TimeLimit, r *record.Record,
	format func([]byte, *record.Record) ([]byte, error)) (err error) {
	if e.op = opDelete; k.kind == "delete" || r.Operation == record.OperationDelete || r.After.IsNone() {
		return nil
	}
	switch {
	case k.kind == "hash":
		err = k.hash(e, limit, r)
	case k.value != nil:
		e.op = opSet
		if e.value, err = k.value.Append(limit, nil, r); err != nil {
			err = fmt.Errorf("cannot make the value: %w", err)
		}
	default:
		e.op = opSet
		if e.value, err = format(nil, r); err != nil {
			err = fmt.Errorf("cannot encode the record: %w", err)
		}
	}
	if err != nil || k.expire == nil {
		return err
	}
	if e.expire = k.after; e.expire > 0 {
		return nil
	}
	text, err := k.expire.Append(limit, nil, r)
	if err == nil && len(text) > 0 {
		e.expire, err = lifetime(string(text))
	}
	if err != nil {
		err = fmt.Errorf("cannot make the time to live: %w", err)
	}
	return err
}

// hash sets the fields of a hash.
func (k *keyed) hash(e *element, limit *template.TimeLimit, r *record.Record) error {
	if k.fields != nil {
		e.op = opMerge
		for _, f := range k.fields {
			text, err := f.text.Append(limit, nil, r)
			if err != nil {
				return fmt.Errorf("cannot make field %q: %w", f.name, err)
			}
			e.fields = append(e.fields, []byte(f.name), text)
		}
		return nil
	}
	after, ok := r.After.Structured()
	if !ok {
		return errors.New("cannot write the record: its payload is raw data, which has no fields; decode it with the " +
			"processor json.decode, or set fields.*" + csv.Cause(r.Metadata))
	}
	e.op = opReplace
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if after[name] == nil {
			continue
		}
		text, err := record.Text(after[name])
		if err != nil {
			return fmt.Errorf("cannot make field %q: %w", name, err)
		}
		e.fields = append(e.fields, []byte(name), []byte(text))
	}
	if len(e.fields) == 0 { // the server has no empty hashes
		e.op = opDelete
	}
	return nil
}

// keyedSource is the script for keyed elements. In one transaction it writes elements up to the first one that the
// server refuses, and then saves the ids of the written ones. Its keys are the keys of the elements, followed by the
// key of the positions, if there is one. Its arguments are the number of elements, the number of old elements of the
// positions to remove, the ids, and for each element the operation, the milliseconds until it expires or 0, the number
// of arguments, and the arguments. Fields are set before others are removed, so that a refused element changes nothing.
const keyedSource = `
local written, refusal = 0, ''
local n, old, ids = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local at = 4
local function fails(reply) return type(reply) == 'table' and reply.err end
local function hash(key, first, count, replaces)
  local given = {}
  for from = first, first + count - 1, 1000 do
    local last = math.min(from + 999, first + count - 1)
    local reply = redis.pcall('HSET', key, unpack(ARGV, from, last))
    if fails(reply) then return reply end
    for i = from, last, 2 do given[ARGV[i]] = true end
  end
  if replaces then
    for _, name in ipairs(redis.call('HKEYS', key)) do
      if not given[name] then redis.call('HDEL', key, name) end
    end
  end
  return 'OK'
end
for i = 1, n do
  local key, op, ttl, count = KEYS[i], ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local first, reply = at + 3, nil
  at = first + count
  if op == 'delete' then
    reply = redis.pcall('DEL', key)
  elseif op == 'set' and ttl ~= '0' then
    reply = redis.pcall('SET', key, ARGV[first], 'PX', ttl)
  elseif op == 'set' then
    reply = redis.pcall('SET', key, ARGV[first])
  else
    reply = hash(key, first, count, op == 'replace')
    if not fails(reply) and ttl ~= '0' then
      reply = redis.pcall('PEXPIRE', key, ttl)
    elseif not fails(reply) and op == 'replace' then
      reply = redis.pcall('PERSIST', key)
    end
  end
  if fails(reply) then
    refusal = reply.err
    break
  end
  written = i
end
if #KEYS > n then
  for i = 1, old do
    redis.call('LPOP', KEYS[n + 1])
  end
  if written > 0 then
    redis.call('RPUSH', KEYS[n + 1], string.sub(ids, 1, written * 16))
  end
end
return {written, refusal}
`

var keyedScript = redis.NewScript(-1, keyedSource)

// keyedArgs returns the arguments of keyedScript. positions is empty with at-least-once delivery.
func keyedArgs(all []element, positions string, old int, ids []byte) []any {
	args := []any{len(all)}
	for _, e := range all {
		args = append(args, e.key)
	}
	if positions != "" {
		args[0] = len(all) + 1
		args = append(args, positions)
	}
	args = append(args, len(all), old, ids)
	for _, e := range all {
		args = append(args, e.op, strconv.FormatInt(e.expire.Milliseconds(), 10))
		if e.op == opSet {
			args = append(args, 1, e.value)
			continue
		}
		args = append(args, len(e.fields))
		for _, f := range e.fields {
			args = append(args, f)
		}
	}
	return args
}
