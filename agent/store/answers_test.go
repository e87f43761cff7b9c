package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// TestAnswers checks that answers exist for a day, also after a restart, and that the oldest are evicted.
func TestAnswers(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "conduit.db"), time.Unix(1e9, 0)
	clock := store.WithClock(func() time.Time { return now })
	db, ctx := open(t, path, clock), t.Context()
	expect := func(key string, want *spec.Answer) {
		t.Helper()
		got, err := db.Answer(ctx, key)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", key, err, diff)
		}
	}
	one := &spec.Answer{Request: []byte{1}, Status: 200,
		Header: map[string][]string{"Etag": {`"x"`}, "Conduit-Generation": {"1", "2"}}, Body: []byte("{}")}
	empty := &spec.Answer{Request: []byte{2}, Status: 404, Header: map[string][]string{}, Body: []byte{}}
	must(t, db.KeepAnswer(ctx, "one", one))
	must(t, db.Close())
	db = open(t, path, clock)
	expect("one", one)
	expect("none", nil)
	now = now.Add(23 * time.Hour)
	must(t, db.KeepAnswer(ctx, "empty", empty))
	expect("one", one)
	now = now.Add(2 * time.Hour)
	expect("one", nil)
	expect("empty", empty)
	must(t, db.KeepAnswer(ctx, "one", empty))
	expect("one", empty)
	t.Cleanup(store.KeepAnswers(3))
	for i := range 3 {
		must(t, db.KeepAnswer(ctx, fmt.Sprint(i), one))
	}
	expect("empty", nil)
	expect("one", nil)
	expect("0", one)
}

// TestAnswersTakeLittleSpace stores answers until they exceed the available space.
func TestAnswersTakeLittleSpace(t *testing.T) {
	t.Cleanup(store.KeepAnswersBytes(1000))
	db, ctx := newStore(t), t.Context()
	answer := func(size int) *spec.Answer {
		return &spec.Answer{Request: []byte{1}, Status: 200, Header: map[string][]string{}, Body: make([]byte, size)}
	}
	kept := func() (all string) {
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if got, err := db.Answer(ctx, key); err != nil {
				t.Fatal(err)
			} else if got != nil {
				all += key
			}
		}
		return all
	}
	for _, step := range []struct {
		key, want string
		size      int
	}{{"a", "a", 400}, {"b", "ab", 400}, {"c", "bc", 400}, {"d", "d", 900}, {"e", "", 2000}} {
		must(t, db.KeepAnswer(ctx, step.key, answer(step.size)))
		if got := kept(); got != step.want {
			t.Errorf("after %s: %q are kept, want %q", step.key, got, step.want)
		}
	}
}
