package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// reading returns a source that reads from read.
func reading(t testing.TB, read func(ctx context.Context) ([]record.Record, error)) (*fakeSource, connector.Source) {
	f := &fakeSource{read: read}
	return f, startSource(t, f, nil)
}

func readBlocked(ctx context.Context) ([]record.Record, error) { return nil, hangUntilDone(ctx) }

func TestReadStampsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := records(0, 4)
		given[1].Metadata.Set(record.KeyReadAt, "5")
		given[1].Metadata.Set(record.KeySourceConnectorID, "other")
		given[2].Metadata = make(record.Metadata, 0, 9)
		given[2].Metadata.Set("opencdc.collection", "users")
		given[3].Metadata.Set("a", "1")
		given[3].Metadata.Set("z", "2")
		_, s := reading(t, func(context.Context) ([]record.Record, error) { return given, nil })
		b, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		both := map[string]string{record.KeyReadAt: now, record.KeySourceConnectorID: connectorID}
		with := func(k, v string, more ...string) map[string]string {
			m := map[string]string{record.KeyReadAt: now, record.KeySourceConnectorID: connectorID, k: v}
			for i := 0; i < len(more); i += 2 {
				m[more[i]] = more[i+1]
			}
			return m
		}
		want := []map[string]string{both,
			{record.KeyReadAt: "5", record.KeySourceConnectorID: "other"},
			with("opencdc.collection", "users"),
			with("a", "1", "z", "2"),
		}
		got, _ := b.Records()
		size := 0
		for i := range got {
			if !got[i].Metadata.Equal(record.NewMetadata(want[i])) {
				t.Errorf("record %d has metadata %v, want %v", i, got[i].Metadata, want[i])
			}
			size += got[i].Size()
		}
		if b.Size() != size {
			t.Errorf("the batch has size %d, its records %d", b.Size(), size)
		}
		got[0].Metadata.Set("more", "x")
		if got[3].Metadata.Get("a") != "1" {
			t.Error("records share memory for metadata")
		}
	})
}

func TestReadChecksPositions(t *testing.T) {
	for name, c := range map[string]struct {
		pos  int
		want string
	}{
		"empty":    {0, `connector "orders:db" (builtin:fake): record 2 of 3 has no position`},
		"longest":  {record.MaxPosition, ""},
		"too long": {record.MaxPosition + 1, `the position of record 2 of 3 has 65537 bytes, more than 65536`},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := reading(t, func(context.Context) ([]record.Record, error) {
				r := records(0, 3)
				r[1].Position = make([]byte, c.pos)
				return r, nil
			})
			_, err := s.Read(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", err, c.want)
			}
			if err == nil {
				return
			}
			if _, err := s.Read(t.Context()); err == nil || f.count("Read") != 1 {
				t.Errorf("a broken source was read %d times, the last with error %v", f.count("Read"), err)
			}
		})
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := reading(t, readBlocked)
		stopLater(t, s)
		for range 2 {
			if _, err := s.Read(t.Context()); err != io.EOF {
				t.Errorf("got error %v", err)
			}
		}
	})
}

func TestStopBeforeRead(t *testing.T) {
	f, s := reading(t, nil)
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(t.Context()); err != io.EOF || f.count("Read") != 0 {
		t.Errorf("got error %v after %d reads", err, f.count("Read"))
	}
}

// stopLater stops s when everything else in the synctest bubble waits.
func stopLater(t *testing.T, s connector.Source) {
	time.AfterFunc(time.Second, func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopDeliversWhatWasRead(t *testing.T) {
	for name, rest := range map[string]error{"records": nil, "records and an error": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := reading(t, func(ctx context.Context) ([]record.Record, error) {
					<-ctx.Done()
					return records(0, 2), rest
				})
				stopLater(t, s)
				if b, err := s.Read(t.Context()); err != nil || b.Len() != 2 {
					t.Fatalf("got %v, %v", b, err)
				}
				if _, err := s.Read(t.Context()); err != io.EOF {
					t.Errorf("got error %v", err)
				}
			})
		})
	}
}

func TestOtherErrorsAfterStopAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("connection lost")
		_, s := reading(t, func(ctx context.Context) ([]record.Record, error) { <-ctx.Done(); return nil, broken })
		stopLater(t, s)
		if _, err := s.Read(t.Context()); err != broken {
			t.Errorf("got error %v", err)
		}
	})
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("connection lost")
	for name, c := range map[string]struct {
		err  error
		is   error
		text string
	}{
		"its own": {broken, broken, "connection lost"},
		"context, though none ended": {context.Canceled, nil,
			`connector "orders:db" (builtin:fake): reading ended by itself: context canceled`},
		"end of file, though not stopped": {io.EOF, nil,
			`connector "orders:db" (builtin:fake): reading ended by itself: EOF`},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := reading(t, func(context.Context) ([]record.Record, error) { return nil, c.err })
			_, err := s.Read(t.Context())
			if err == nil || err.Error() != c.text {
				t.Errorf("got error %v, want %s", err, c.text)
			}
			if c.is == nil && errors.Is(err, c.err) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is %v: %v", err, c.err, errors.Is(err, c.err))
			}
		})
	}
}

func TestErrorWithRecordsComesAfterThem(t *testing.T) {
	broken := errors.New("connection lost")
	f, s := reading(t, func(context.Context) ([]record.Record, error) { return records(0, 1), broken })
	if b, err := s.Read(t.Context()); err != nil || b.Len() != 1 {
		t.Fatalf("got %v, %v", b, err)
	}
	if _, err := s.Read(t.Context()); err != broken || f.count("Read") != 1 {
		t.Errorf("got error %v after %d reads", err, f.count("Read"))
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := reading(t, readBlocked)
		for range 2 { // a new context works after the end of an old one
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %v", err)
			}
		}
	})
}

func TestContextsOfCalls(t *testing.T) {
	var seen []context.Context
	_, s := reading(t, func(ctx context.Context) ([]record.Record, error) {
		seen = append(seen, ctx)
		return records(0, 1), nil
	})
	other, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), t.Context(), other} {
		if _, err := s.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if seen[0] != seen[1] {
		t.Error("two calls with one context saw two")
	}
	if seen[0].Err() == nil || seen[2].Err() != nil {
		t.Errorf("an old context has error %v, the new one %v", seen[0].Err(), seen[2].Err())
	}
}

func TestEmptyReadsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		_, s := reading(t, func(context.Context) ([]record.Record, error) {
			if n++; n <= 3 {
				return nil, nil
			}
			return records(0, 1), nil
		})
		start := time.Now()
		b, err := s.Read(t.Context())
		if err != nil || b.Len() != 1 {
			t.Fatalf("got %v, %v", b, err)
		}
		if took := time.Since(start); took < 3*time.Millisecond || took > time.Second {
			t.Errorf("three empty reads took %v", took)
		}
	})
}

func TestStopEndsEmptyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := reading(t, func(context.Context) ([]record.Record, error) { return nil, nil })
		stopLater(t, s)
		if _, err := s.Read(t.Context()); err != io.EOF {
			t.Errorf("got error %v", err)
		}
	})
}

func TestPanicInRead(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"plain":    nil,
		"batching": {"sdk.batch.size": "2"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			f := &fakeSource{read: func(context.Context) ([]record.Record, error) { panic("oh no") }}
			s := startSource(t, f, slog.New(slog.NewTextHandler(&log, nil)))
			if err := errors.Join(s.Configure(t.Context(), settings), s.Open(t.Context(), nil)); err != nil {
				t.Fatal(err)
			}
			_, err := s.Read(t.Context())
			checkPanic(t, err, log.String())
			if err := s.Ack(t.Context(), []record.Position{{1}}); err == nil {
				t.Error("a source that panicked was acknowledged to")
			}
		})
	}
}

func TestAckIsSerialisedAndRunsDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		f, s := reading(t, readBlocked)
		f.ack = func(ctx context.Context, positions []record.Position) error {
			time.Sleep(time.Second)
			for _, p := range positions {
				got = append(got, string(p))
			}
			return ctx.Err()
		}
		done := make(chan error)
		go func() { _, err := s.Read(t.Context()); done <- err }()
		synctest.Wait()
		for range 2 {
			go func() { done <- s.Ack(t.Context(), []record.Position{[]byte("1"), []byte("2")}) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		_ = s.Stop(t.Context())
		if err := <-done; err != io.EOF {
			t.Errorf("Read gave %v", err)
		}
		if err := s.Ack(t.Context(), []record.Position{[]byte("3")}); err != nil {
			t.Errorf("Ack after Stop gave %v", err)
		}
		if err := s.Ack(t.Context(), nil); err != nil || f.count("Ack") != 3 {
			t.Errorf("an empty Ack gave %v and reached the connector", err)
		}
		if strings.Join(got, "") != "12123" {
			t.Errorf("acknowledged %v", got)
		}
	})
}

func TestPanicInAck(t *testing.T) {
	var log bytes.Buffer
	f := &fakeSource{ack: func(context.Context, []record.Position) error { panic("oh no") }}
	s := startSource(t, f, slog.New(slog.NewTextHandler(&log, nil)))
	checkPanic(t, s.Ack(t.Context(), []record.Position{{1}}), log.String())
}

func TestTeardownEndsReadAndAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := reading(t, readBlocked)
		f.ack = func(ctx context.Context, _ []record.Position) error { return hangUntilDone(ctx) }
		read, ack := make(chan error), make(chan error)
		go func() { _, err := s.Read(t.Context()); read <- err }()
		go func() { ack <- s.Ack(t.Context(), []record.Position{{1}}) }()
		synctest.Wait()
		go func() { _, err := s.Read(t.Context()); read <- err }() // waits for the previous call
		synctest.Wait()
		if err := s.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ack; err == nil {
			t.Error("the Ack that Teardown ended gave no error")
		}
		for range 2 {
			if want, err := `connector "orders:db" (builtin:fake): it is torn down`, <-read; err == nil ||
				err.Error() != want {
				t.Errorf("Read gave error %v, want %s", err, want)
			}
		}
		if n := f.count("Read"); n != 1 {
			t.Errorf("the connector was read %d times", n)
		}
	})
}

func TestTeardownDoesNotWaitForAHungRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f, s := reading(t, func(context.Context) ([]record.Record, error) { <-release; return nil, nil })
		done := make(chan error)
		go func() { _, err := s.Read(t.Context()); done <- err }()
		synctest.Wait()
		err := s.Teardown(t.Context())
		if err == nil || !strings.Contains(err.Error(), `connector "orders:db" (builtin:fake): it was given up`) {
			t.Errorf("got error %v", err)
		}
		close(release)
		if err := <-done; err == nil {
			t.Error("Read gave no error")
		}
		synctest.Wait()
		if n := f.count("Teardown"); n != 1 {
			t.Errorf("Teardown was called %d times", n)
		}
	})
}

// reporting is a source that reports its lag, or panics.
type reporting struct {
	sdk.Source
	panics bool
}

func (r *reporting) Parameters() sdk.Parameters                         { return nil }
func (r *reporting) Configure(context.Context, map[string]string) error { return nil }
func (r *reporting) Open(context.Context, record.Position) error        { return nil }
func (r *reporting) Teardown(context.Context) error                     { return nil }
func (r *reporting) Progress() progress.Report {
	if r.panics {
		panic("no idea")
	}
	n := int64(7)
	return progress.Report{Records: &n}
}

// TestProgress queries the progress of a source through all wrappers. A source that panics is broken from then on, but
// the agent is not.
func TestProgress(t *testing.T) {
	inner := &reporting{}
	host := &plugins.Host{Builtin: []sdk.Connector{{Name: "behind", Version: "v1.0.0", NewSource: func() sdk.Source {
		return inner
	}}}}
	s, err := host.Source(t.Context(), "builtin:behind", "p:s")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Configure(t.Context(), nil), s.Open(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	if r := connector.ProgressOf(s); r.Records == nil || *r.Records != 7 {
		t.Errorf("got %+v, want 7 records", r)
	}
	inner.panics = true
	if r := connector.ProgressOf(s); r.Records != nil {
		t.Errorf("got %+v of a source that panicked", r)
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("a source that panicked is read")
	}
}
