package s3_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestOtherPrefixes opens sources from any position of a source with other prefixes, as when the number of instances of
// a pipeline changes. Unread objects arrive once. Only objects of prefixes that were absent in between and of restarted
// snapshots arrive again.
func TestOtherPrefixes(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		otherPrefixes(t, seed)
	}
}

func otherPrefixes(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	f := newFake(t, seed%2 == 1)
	f.perPage = 2
	keys := []string{"a/", "b/", "c/", "d/"}
	var written []string
	put := func(prefix string, within time.Duration) {
		written = append(written, fmt.Sprintf("%s%02d", prefix, len(written)))
		f.put(written[len(written)-1], "content",
			time.Now().Add(-2*time.Second-time.Duration(random.Int64N(int64(within)))).Truncate(time.Second))
	}
	choose := func() []string {
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		return slices.Clone(keys[:1+random.IntN(len(keys))])
	}
	for range 20 {
		put(keys[random.IntN(len(keys))], time.Hour)
	}
	var position record.Position
	known := map[string]bool{} // keys read, of prefixes that have been present since
	for round := range 6 {
		prefixes := choose()
		chosen := func(key string) bool { return slices.Contains(prefixes, key[:2]) }
		maps.DeleteFunc(known, func(key string, _ bool) bool {
			return !chosen(key) || begunAgain(position, prefixes, key)
		})
		r := source(t, quick(f.addr(), "prefixes", strings.Join(prefixes, ","), "listing.lookback", lookback.String(),
			"pollingPeriod", "1ms"), position)
		for range random.IntN(3) {
			put(keys[random.IntN(len(keys))], lookback/2)
		}
		put(prefixes[0], lookback/2)
		wanted := 0
		for _, key := range written {
			if chosen(key) && !known[key] {
				wanted++
			}
		}
		if round%2 == 1 {
			wanted = 1 + random.IntN(wanted) // and is reopened during a snapshot
		}
		for _, got := range r.read(t, wanted) {
			key, _ := got.Key.Raw()
			if known[string(key)] || !chosen(string(key)) {
				t.Fatalf("seed %d, round %d: %s is read again, with prefixes %v", seed, round, key, prefixes)
			}
			known[string(key)] = true
			position = got.Position
		}
	}
}

// begunAgain reports whether a key belongs to a snapshot that restarts with additional prefixes.
func begunAgain(pos record.Position, prefixes []string, key string) bool {
	var p struct {
		Snapshot        *time.Time
		Prefixes, Added []string
	}
	_ = json.Unmarshal(pos, &p) // stays empty without a position
	isNew := func(prefix string) bool { return !slices.Contains(p.Prefixes, prefix) }
	return p.Snapshot != nil && slices.ContainsFunc(prefixes, isNew) &&
		(p.Added == nil || slices.Contains(p.Added, key[:2]))
}

// TestPrefixOfBefore reads all prefixes again if the position does not name its prefixes.
func TestPrefixOfBefore(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	now := time.Now().Add(-time.Hour).Truncate(time.Second)
	f.put("a/1", "1", now)
	f.put("b/1", "2", now.Add(time.Second))
	one := source(t, quick(f.addr(), "prefix", "a/"), nil).read(t, 1)
	both := source(t, quick(f.addr(), "prefixes", "a/,b/"), one[0].Position).read(t, 2)
	want(t, both, "snapshot:a/1=1 snapshot:b/1=2")
	f.put("b/2", "3", now.Add(2*time.Second))
	want(t, source(t, quick(f.addr(), "prefix", "b/"), both[1].Position).read(t, 1), "snapshot:b/2=3")
}

// TestWrongPrefixes checks the errors for invalid prefixes.
func TestWrongPrefixes(t *testing.T) {
	for wanted, more := range map[string][]string{
		"cannot be set with prefix":           {"prefixes", "a/", "prefix", "b/"},
		`"a/b", which begins with "a/"`:       {"prefixes", "a/b,a/"},
		`"a/", which begins with "a/"`:        {"prefixes", "a/,a/"},
		"has an empty prefix":                 {"prefixes", "a/,"},
		"must not be longer than 16384 bytes": {"prefixes", strings.Repeat("a", 10_000) + "," + strings.Repeat("b", 10_000)},
	} {
		if err := (&s3.Source{}).Configure(t.Context(), settings("127.0.0.1:1", more...)); err == nil ||
			!strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %s", err, wanted)
		}
	}
}

// TestLedgersAreApart checks that no two destinations share a ledger.
func TestLedgersAreApart(t *testing.T) {
	taken := map[string]string{}
	for _, connector := range []string{"shop:out", "a:b:c", "a-b:c", "a:b-c", "a:b/c", "..:x",
		strings.Repeat("a", 128) + ":b-c", strings.Repeat("a", 128) + ":b:c"} {
		dir := s3.LedgerDir(sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: connector}))
		if other := taken[dir]; other != "" || strings.Count(dir, "/") != 2 {
			t.Errorf("%s keeps its positions in %s, as does %q", connector, dir, other)
		}
		taken[dir] = connector
	}
	if taken[".conduit-positions/shop-out/"] != "shop:out" {
		t.Errorf("places: %v", taken)
	}
}
