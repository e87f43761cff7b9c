package schema_test

import (
	"context"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// counted counts its requests.
type counted struct {
	schema.Memory
	gets int
}

func (c *counted) ByID(_ context.Context, id int) (schema.Schema, error) {
	c.gets++
	return schema.Schema{ID: id, Text: strings.Repeat("x", 1<<20)}, nil
}

// A cache bounds the memory of cached answers.
func TestCacheBytes(t *testing.T) {
	registry := &counted{}
	cache := &schema.Cache{Registry: registry}
	for _, id := range []int{1, 2, 1, 2} {
		if _, err := cache.ByID(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if registry.gets != 2 {
		t.Errorf("asked %d times for two schemas, want twice", registry.gets)
	}
	for id := range 20 { // 1 MiB each
		_, _ = cache.ByID(t.Context(), id)
	}
	registry.gets = 0
	if _, _ = cache.ByID(t.Context(), 1); registry.gets != 1 {
		t.Error("a schema is still there after 20 MiB of others")
	}
}
