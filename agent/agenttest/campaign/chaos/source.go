package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// The modes of a source. It reads the numbers from 1 to count.
const (
	Crash         = "crash"          // ends the process after 5 records
	Poison        = "poison"         // ends the process before record 5, each time
	Fail          = "fail"           // ends the stream with an error after 5 records
	Hang          = "hang"           // stops sending after 5 records and answers no Stop
	EmptyPosition = "empty position" // record 5 has no position
	HugePosition  = "huge position"  // record 5 has a position of 1 MiB
	SamePosition  = "same position"  // all records have the same position
	Oversized     = "oversized"      // record 5 has 8 MiB
	Malformed     = "malformed"      // the fifth message is invalid
	NotUTF8       = "not UTF-8"      // record 5 has metadata that is not valid text
	StopHang      = "stop hang"      // answers no Stop
	StopIgnored   = "stop ignored"   // answers Stop and keeps reading
	StopLate      = "stop late"      // keeps reading, and answers Stop 10 records later with the position at the call
	StopWrong     = "stop wrong"     // answers Stop with a position that it never read
	EndAtStop     = "end at stop"    // ends the stream at Stop and forgets the last position
	OpenFails     = "open fails"
	OpenHang      = "open hang"
	TeardownCrash = "teardown crash" // ends the process in Teardown
	TeardownHang  = "teardown hang"  // answers no Teardown
)

type source struct {
	connectorv2.UnimplementedSourcePluginServer
	mode     string
	count    int
	at       int
	stopped  chan struct{}
	stopOnce sync.Once
	beyond   chan struct{} // closed when records after the last position were sent

	mu   sync.Mutex
	sent string // guarded by mu: position of the last record
	last []byte // the last message

	out *output // listener that keeps the last bytes written
}

func newSource(out *output) *source {
	return &source{stopped: make(chan struct{}), beyond: make(chan struct{}), out: out}
}

// late is how many records a source in mode StopLate sends before it answers.
const late = 10

// Configure accepts any settings.
func (s *source) Configure(
	_ context.Context, req *connectorv2.Source_Configure_Request,
) (*connectorv2.Source_Configure_Response, error) {
	s.mode = req.GetConfig()["mode"]
	if s.count, _ = strconv.Atoi(req.GetConfig()["count"]); s.count == 0 {
		s.count = 10
	}
	return &connectorv2.Source_Configure_Response{}, nil
}

// Open resumes after the position.
func (s *source) Open(
	ctx context.Context, req *connectorv2.Source_Open_Request,
) (*connectorv2.Source_Open_Response, error) {
	switch s.mode {
	case OpenFails:
		return nil, errors.New("there is nothing to open")
	case OpenHang:
		select {}
	}
	s.at, _ = strconv.Atoi(string(req.GetPosition()))
	return &connectorv2.Source_Open_Response{}, nil
}

// Run sends records until it is stopped.
func (s *source) Run(
	stream grpc.BidiStreamingServer[connectorv2.Source_Run_Request, connectorv2.Source_Run_Response],
) error {
	acks := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				acks <- err
				return
			}
		}
	}()
	for begin := s.at; s.at < s.count; s.at++ {
		if err := s.step(stream, s.at+1-begin); err != nil {
			return err
		}
	}
	select {
	case <-s.stopped:
	case err := <-acks: // Stop will not be called
		return unlessEOF(err)
	}
	if s.mode == EndAtStop {
		return nil
	}
	if s.mode == StopIgnored || s.mode == StopLate {
		if err := s.readOn(stream); err != nil {
			return err
		}
	}
	return unlessEOF(<-acks)
}

// readOn sends a record per millisecond until the stream ends.
func (s *source) readOn(stream grpc.ServerStream) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		s.at++
		if err := s.send(stream, s.record(s.at)); err != nil {
			return err
		}
		if n == late {
			close(s.beyond)
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// step sends the next record, the nth of this run.
func (s *source) step(stream grpc.ServerStream, nth int) error {
	n := s.at + 1
	switch {
	case s.mode == Crash && nth == 6, s.mode == Poison && n == 5:
		s.left(stream.Context())
		fmt.Fprintln(os.Stderr, "panic: chaos at record", n)
		os.Exit(3)
	case s.mode == Fail && nth == 6:
		return errors.New("the database is gone")
	case s.mode == Hang && nth == 6:
		select {}
	case s.mode == Malformed && n == 5:
		return stream.SendMsg(&connectorv2.Source_Open_Request{Position: []byte("\xff\xff\xff")})
	case s.mode == NotUTF8 && n == 5:
		return s.sendRaw(stream, message(1,
			message(1, "5")+message(3, message(1, "opencdc.collection")+message(2, "\xff\xfe"))))
	}
	return s.send(stream, s.record(n))
}

func (s *source) record(n int) *commonv1.Record {
	text := strconv.Itoa(n)
	r := &commonv1.Record{Position: []byte(text), Operation: commonv1.Operation_OPERATION_CREATE,
		Payload: &commonv1.Change{After: raw([]byte(text))}}
	switch {
	case s.mode == SamePosition:
		r.Position = []byte("same")
	case s.mode == EmptyPosition && n == 5:
		r.Position = nil
	case s.mode == HugePosition && n == 5:
		r.Position = make([]byte, 1<<20)
	case s.mode == Oversized && n == 5:
		r.Payload.After = raw(make([]byte, 8<<20))
	}
	return r
}

func raw(b []byte) *commonv1.Data {
	return &commonv1.Data{Data: &commonv1.Data_RawData{RawData: b}}
}

// send counts the record first: Stop may be called as soon as the record arrives.
func (s *source) send(stream grpc.ServerStream, r *commonv1.Record) error {
	s.mu.Lock()
	s.sent = string(r.GetPosition())
	s.mu.Unlock()
	m := &connectorv2.Source_Run_Response{Records: []*commonv1.Record{r}}
	s.last, _ = proto.Marshal(m) // SendMsg returns the error
	return stream.SendMsg(m)
}

// left waits until the last message was written to the connection, which SendMsg does not wait for.
func (s *source) left(ctx context.Context) {
	wait.Until(ctx, func() bool { return s.out.has(s.last) })
}

// message returns the field num of a message, with content of fewer than 128 bytes.
func message(num byte, content string) string {
	return string([]byte{num<<3 | 2, byte(len(content))}) + content
}

// sendRaw sends a message that the protobuf library cannot produce.
func (s *source) sendRaw(stream grpc.ServerStream, encoded string) error {
	m := &connectorv2.Source_Run_Response{}
	m.ProtoReflect().SetUnknown([]byte(encoded))
	return stream.SendMsg(m)
}

// Stop answers with the position of the last record.
func (s *source) Stop(
	ctx context.Context, _ *connectorv2.Source_Stop_Request,
) (*connectorv2.Source_Stop_Response, error) {
	if s.mode == StopHang || s.mode == Hang {
		select {}
	}
	s.mu.Lock()
	resp := &connectorv2.Source_Stop_Response{LastPosition: []byte(s.sent)}
	s.mu.Unlock()
	s.stopOnce.Do(func() { close(s.stopped) })
	switch s.mode {
	case StopLate:
		select {
		case <-s.beyond:
		case <-ctx.Done():
		}
	case StopWrong:
		resp.LastPosition = []byte("never read")
	case EndAtStop:
		resp.LastPosition = nil
	}
	return resp, nil
}

// Teardown ends the source.
func (s *source) Teardown(
	context.Context, *connectorv2.Source_Teardown_Request,
) (*connectorv2.Source_Teardown_Response, error) {
	tearDown(s.mode)
	return &connectorv2.Source_Teardown_Response{}, nil
}

func tearDown(mode string) {
	switch mode {
	case TeardownCrash:
		fmt.Fprintln(os.Stderr, "panic: chaos in teardown")
		os.Exit(3)
	case TeardownHang:
		select {}
	}
}
