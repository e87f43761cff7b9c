package builtin_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

// Received messages are returned before the error that ended receiving.
func TestTake(t *testing.T) {
	b := common.NewInbox[int]()
	push := func(all ...int) {
		b.Lock()
		defer b.Unlock()
		for _, m := range all {
			b.Push(m)
		}
	}
	lost := errors.New("lost")
	push(1, 2)
	want(t, b, []int{1, 2}, nil)
	go push(3)
	want(t, b, []int{3}, nil)
	push(4)
	b.Fail(lost)
	if messages, err := b.Take(t.Context()); !slices.Equal(messages, []int{4}) || !errors.Is(err, lost) {
		t.Errorf("took %v, %v", messages, err)
	}
	want(t, b, nil, lost)
	b.Lock()
	defer b.Unlock()
	if got := b.Acknowledged(3); !slices.Equal(got, []int{1, 2, 3}) || !slices.Equal(b.Read, []int{4}) {
		t.Errorf("acknowledged %v, left %v", got, b.Read)
	}
	if got := b.Acknowledged(3); !slices.Equal(got, []int{4}) {
		t.Errorf("acknowledged %v of the last one", got)
	}
}

// Take ends with the context.
func TestTakeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if messages, err := common.NewInbox[int]().Take(ctx); len(messages) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("took %v, %v", messages, err)
	}
}

func want(t *testing.T, b *common.Inbox[int], messages []int, err error) {
	t.Helper()
	if got, gotErr := b.Take(t.Context()); !slices.Equal(got, messages) || !errors.Is(gotErr, err) {
		t.Errorf("took %v, %v, want %v, %v", got, gotErr, messages, err)
	}
}
