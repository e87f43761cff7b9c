package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// serveOdd serves a plugin whose setting "mode" selects its behavior. It has no services of go-plugin.
func serveOdd() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	connectorv2.RegisterSourcePluginServer(server, &oddSource{stop: make(chan struct{})})
	connectorv2.RegisterDestinationPluginServer(server, &oddDestination{stop: make(chan struct{})})
	fmt.Printf("1|2|tcp|%s|grpc|\n", listener.Addr())
	panic(server.Serve(listener))
}

// streamEnded names a file. A Stop that answers after the end of the stream waits until the file exists.
const streamEnded = "STANDALONE_TEST_STREAM_ENDED"

type oddSource struct {
	connectorv2.UnimplementedSourcePluginServer
	mode string
	stop chan struct{}
}

func (s *oddSource) Configure(
	_ context.Context, req *connectorv2.Source_Configure_Request,
) (*connectorv2.Source_Configure_Response, error) {
	s.mode = req.GetConfig()["mode"]
	return &connectorv2.Source_Configure_Response{}, nil
}

func (s *oddSource) Open(context.Context, *connectorv2.Source_Open_Request) (*connectorv2.Source_Open_Response, error) {
	return &connectorv2.Source_Open_Response{}, nil
}

func (s *oddSource) Run(stream connectorv2.SourcePlugin_RunServer) error {
	if s.mode == "fail" {
		return errors.New("table is gone")
	}
	if s.mode == "crowd, then die" || s.mode == "crowd, then end" {
		return s.crowd(stream)
	}
	for _, n := range []string{"", "1", "", "2"} {
		resp := &connectorv2.Source_Run_Response{}
		if n != "" {
			resp.Records = []*commonv1.Record{{Position: []byte(n),
				Payload: &commonv1.Change{Before: &commonv1.Data{}}}}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	select {
	case <-s.stop:
		if s.mode == "late" {
			if _, err := stream.Recv(); err != nil { // an acknowledgement, once Stop has answered
				return err
			}
			return stream.Send(&connectorv2.Source_Run_Response{Records: []*commonv1.Record{{Position: []byte("99")}}})
		}
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// crowded is a number of messages that exceeds the number that the host receives ahead.
const crowded = 300

// crowd sends crowded messages, and dies at an acknowledgement or ends the stream at Stop.
func (s *oddSource) crowd(stream connectorv2.SourcePlugin_RunServer) error {
	for n := range crowded {
		resp := &connectorv2.Source_Run_Response{Records: []*commonv1.Record{{Position: []byte(strconv.Itoa(n + 1))}}}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	if s.mode == "crowd, then end" {
		<-s.stop
		return nil
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	os.Exit(3)
	return nil
}

func (s *oddSource) Stop(
	ctx context.Context, _ *connectorv2.Source_Stop_Request,
) (*connectorv2.Source_Stop_Response, error) {
	switch s.mode {
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "unknown last":
		return &connectorv2.Source_Stop_Response{LastPosition: []byte("99")}, nil
	}
	close(s.stop)
	if s.mode == "crowd, then end" {
		return &connectorv2.Source_Stop_Response{LastPosition: []byte(strconv.Itoa(crowded))}, nil
	}
	if s.mode == "late" {
		return &connectorv2.Source_Stop_Response{LastPosition: []byte("99")}, nil
	}
	wait.Until(ctx, func() bool { // until the end of the stream has reached the host
		_, err := os.Stat(os.Getenv(streamEnded))
		return err == nil
	})
	return &connectorv2.Source_Stop_Response{LastPosition: []byte("99")}, nil
}

func TestOddSources(t *testing.T) {
	for _, mode := range []string{"ends the stream", "hang", "unknown last", "late"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c, _ := client(t, "odd")
			if c.StopTimeout = wait.Limit; mode == "hang" || mode == "unknown last" {
				c.StopTimeout = 10 * time.Millisecond
				standalone.SetEndTimeouts(c, 10*time.Millisecond)
			}
			ended := filepath.Join(t.TempDir(), "ended")
			c.Env = append(c.Env, streamEnded+"="+ended)
			s := openSource(ctx, t, c, map[string]string{"mode": mode})
			if err := s.LifecycleOnCreated(ctx, nil); err != nil {
				t.Errorf("lifecycle events are optional: %v", err)
			}
			got := readTwo(ctx, t, s)
			if string(got[0].Position) != "1" || string(got[1].Position) != "2" || !got[0].Before.IsNone() {
				t.Errorf("got %v", got)
			}
			if mode == "ends the stream" {
				go func() {
					wait.Until(ctx, func() bool { return standalone.SourceHasEnded(s) })
					_ = os.WriteFile(ended, nil, 0o600)
				}()
			}
			if err := s.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Ack(ctx, []record.Position{got[0].Position}); err != nil {
				t.Errorf("acknowledgement after Stop: %v", err)
			}
			b, err := s.Read(ctx)
			if mode == "late" {
				if err != nil || string(b.Position(0)) != "99" {
					t.Errorf("got %v, %v, want the last record", b, err)
				}
				b, err = s.Read(ctx)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("got %v, %v, want io.EOF", b, err)
			}
			if err := s.Ack(ctx, []record.Position{got[1].Position}); err != nil {
				t.Errorf("acknowledgement after the end: %v", err)
			}
			if err := s.Teardown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// readTwo reads until there are two records.
func readTwo(ctx context.Context, t *testing.T, s connector.Source) (got []record.Record) {
	t.Helper()
	for len(got) < 2 {
		b, err := s.Read(ctx)
		if err != nil || b.Len() == 0 {
			t.Fatalf("got %v, %v", b, err)
		}
		records, err := b.Records()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, records...)
	}
	return got
}

func TestSourceThatFails(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "odd")
	s := openSource(ctx, t, c, map[string]string{"mode": "fail"})
	if b, err := s.Read(ctx); err == nil || !strings.Contains(err.Error(), "table is gone") {
		t.Errorf("got %v, %v", b, err)
	}
}

// Ack returns the end of the source even if more messages are waiting than the host receives ahead and nothing reads
// them.
func TestSourcesThatEndUnread(t *testing.T) {
	for _, mode := range []string{"crowd, then die", "crowd, then end"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c, _ := client(t, "odd")
			c.StopTimeout = 200 * time.Millisecond
			s := openSource(ctx, t, c, map[string]string{"mode": mode})
			standalone.MakeSpace(s) // as the first Read does
			wait.For(t, "no more is taken ahead", func() bool { return standalone.SourceIsAhead(s) })
			dies := mode == "crowd, then die"
			if !dies {
				if err := s.Stop(ctx); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			wait.For(t, "the end is noticed", func() bool {
				err = s.Ack(ctx, []record.Position{record.Position("1")})
				return err != nil || standalone.SourceHasEnded(s)
			})
			if !dies && err != nil || dies &&
				(err == nil || !strings.Contains(err.Error(), "the plugin process ended: exit status 3")) {
				t.Errorf("acknowledgement: %v", err)
			}
			if ctx.Err() != nil {
				t.Error("it is noticed only because the context ends")
			}
			n := 0
			for err = nil; err == nil; {
				var b *record.Batch
				if b, err = s.Read(ctx); err == nil {
					n += b.Len()
				}
			}
			if !dies && n != crowded || errors.Is(err, io.EOF) == dies {
				t.Errorf("read %d records, then %v", n, err)
			}
		})
	}
}

type oddDestination struct {
	connectorv2.UnimplementedDestinationPluginServer
	mode string
	stop chan struct{}
}

func (d *oddDestination) Configure(
	_ context.Context, req *connectorv2.Destination_Configure_Request,
) (*connectorv2.Destination_Configure_Response, error) {
	d.mode = req.GetConfig()["mode"]
	return &connectorv2.Destination_Configure_Response{}, nil
}

func (d *oddDestination) Open(
	context.Context, *connectorv2.Destination_Open_Request,
) (*connectorv2.Destination_Open_Response, error) {
	return &connectorv2.Destination_Open_Response{}, nil
}

func (d *oddDestination) Run(stream connectorv2.DestinationPlugin_RunServer) error {
	var held []*connectorv2.Destination_Run_Response_Ack
	for {
		req, err := stream.Recv()
		if d.mode == "crowd, then die" {
			return d.crowd(stream, req)
		}
		if errors.Is(err, io.EOF) {
			return stream.Send(&connectorv2.Destination_Run_Response{Acks: held})
		}
		if err != nil {
			return err
		}
		for _, r := range req.GetRecords() {
			held = append(held, &connectorv2.Destination_Run_Response_Ack{Position: r.GetPosition()})
		}
		switch d.mode {
		case "answers at the end", "silent":
			if d.mode == "silent" {
				held = nil
			}
			continue
		case "another order":
			held[0], held[1] = held[1], held[0]
		case "surplus":
			held = append(held, held[0])
		case "refuses the tail":
			for i, r := range req.GetRecords() {
				if i > 0 && held[i-1].GetError() != "" || string(r.GetPayload().GetAfter().GetRawData()) == "bad" {
					held[i].Error = "bad record"
				}
			}
		}
		for _, acks := range [][]*connectorv2.Destination_Run_Response_Ack{nil, held} {
			if err := stream.Send(&connectorv2.Destination_Run_Response{Acks: acks}); err != nil {
				return err
			}
		}
		held = nil
	}
}

// crowd answers every record separately, and dies at the next message.
func (d *oddDestination) crowd(
	stream connectorv2.DestinationPlugin_RunServer, req *connectorv2.Destination_Run_Request,
) error {
	for _, r := range req.GetRecords() {
		resp := &connectorv2.Destination_Run_Response{
			Acks: []*connectorv2.Destination_Run_Response_Ack{{Position: r.GetPosition()}}}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	os.Exit(3)
	return nil
}

func (d *oddDestination) Stop(
	ctx context.Context, _ *connectorv2.Destination_Stop_Request,
) (*connectorv2.Destination_Stop_Response, error) {
	if d.mode == "hang" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &connectorv2.Destination_Stop_Response{}, nil
}

func TestOddDestinations(t *testing.T) {
	tests := []struct {
		mode    string
		flushes bool
		broken  string
	}{
		{"answers at the end", true, ""},
		{"hang", true, ""},
		{"silent", false, ""},
		{"another order", false, `acknowledged record "2" instead of "1"`},
		{"surplus", false, "more records than it received"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c, _ := client(t, "odd")
			if c.StopTimeout = wait.Limit; tt.mode == "hang" || tt.mode == "silent" {
				c.StopTimeout = 10 * time.Millisecond
			}
			d, r := openDestination(ctx, t, c,
				map[string]string{"mode": tt.mode, "path": filepath.Join(t.TempDir(), "x")})
			if err := d.Write(ctx, batch("a", "b")); err != nil {
				t.Fatal(err)
			}
			if tt.broken != "" {
				wait.For(t, "it is reported", func() bool { _, _, broken := r.get(); return broken != nil })
				if _, _, broken := r.get(); !strings.Contains(broken.Error(), tt.broken) {
					t.Errorf("got %v, want %s", broken, tt.broken)
				}
				return
			}
			if tt.mode == "hang" { // only Stop does
				wait.For(t, "all is settled", func() bool { n, _, _ := r.get(); return n == 2 })
			}
			err := d.Flush(ctx)
			n, _, _ := r.get()
			if tt.flushes && (err != nil || n != 2) {
				t.Errorf("settled %d, Flush: %v", n, err)
			}
			if !tt.flushes && (err == nil || !strings.Contains(err.Error(), "2 records were not acknowledged")) {
				t.Errorf("settled %d, Flush: %v", n, err)
			}
		})
	}
}

// Write returns the death of the destination even if nothing receives its answers in the meantime.
func TestDestinationThatDiesUnheard(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "odd")
	d, err := c.Destination(ctx, "pipe:dst")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Teardown(context.WithoutCancel(ctx)) }()
	attended := make(chan struct{})
	err = errors.Join(d.Configure(ctx, map[string]string{"mode": "crowd, then die"}), d.Open(ctx, func(int, error) {
		<-attended
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer close(attended)
	if err := d.Write(ctx, batch(make([]string, crowded)...)); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "no more is taken ahead", func() bool { return standalone.DestinationIsAhead(d) })
	wait.For(t, "the end is noticed", func() bool { err = d.Write(ctx, batch("a")); return err != nil })
	if !strings.Contains(err.Error(), "the plugin process ended: exit status 3") || ctx.Err() != nil {
		t.Errorf("Write: %v, context: %v", err, ctx.Err())
	}
}

// Plugins made with common SDKs refuse, along with a record, all records after it in the same message.
func TestRecordsAfterRefusedOneAreResent(t *testing.T) {
	for _, stopAndWait := range []bool{false, true} {
		t.Run(fmt.Sprint("stop-and-wait=", stopAndWait), func(t *testing.T) {
			ctx := testContext(t)
			c, _ := client(t, "odd")
			d, err := c.Destination(ctx, "pipe:dst")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Teardown(context.WithoutCancel(ctx)) }()
			if err := d.Configure(ctx, map[string]string{"mode": "refuses the tail"}); err != nil {
				t.Fatal(err)
			}
			want := []string{"1 ok", "bad record", "bad record", "bad record"}
			if stopAndWait {
				d.StopAndWait()
				want = []string{"1 ok", "bad record", "1 ok", "bad record"}
			}
			var mu sync.Mutex
			var got []string
			err = d.Open(ctx, func(n int, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					got = append(got, err.Error())
				} else {
					got = append(got, fmt.Sprint(n, " ok"))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Write(ctx, batch("a", "bad", "c", "bad")); err != nil {
				t.Fatal(err)
			}
			if err := d.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("settled %q, want %q", got, want)
			}
		})
	}
}
