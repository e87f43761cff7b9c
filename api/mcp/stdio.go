package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/conduit-agent/conduit/api/client"
)

// Stdio has the streams on which Serve serves, and the agent to which it sends requests.
type Stdio struct {
	In      io.Reader
	Out     io.Writer
	Agent   func(context.Context) (*client.Client, error) // called for each request
	Version string
	Write   bool                  // has tools that change pipelines
	Explain func(err error) error // adds a remedy to an error about reaching the agent
}

// Serve serves the tools on the streams until ctx ends, or until the input ends and every request in it is answered. A
// line that is no message gets an error as its answer.
func Serve(ctx context.Context, s Stdio) error {
	options := &sdk.ServerOptions{Instructions: instructions(s.Write), Capabilities: capabilities}
	server := newServer(s.Version, options, true, s.Write, s.Agent, s.Explain)
	err := server.Run(ctx, &lines{in: bufio.NewReaderSize(s.In, maxRequest), out: s.Out})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lines is a connection with a message in each line. The library's own ends at the first line that is no message, and
// with the input, whether or not its requests are answered.
type lines struct {
	in       *bufio.Reader
	out      io.Writer
	incoming chan jsonrpc.Message
	closed   chan struct{}
	close    sync.Once

	writing sync.Mutex // held while a line is written, which may wait for the client

	mu    sync.Mutex
	open  map[jsonrpc.ID]bool // requests without an answer; guarded by mu
	ended bool                // the input ended; guarded by mu
	err   error               // of the input, valid when ended; guarded by mu
}

// Connect implements sdk.Transport.
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	l.incoming, l.closed, l.open = make(chan jsonrpc.Message), make(chan struct{}), map[jsonrpc.ID]bool{}
	go l.follow() // a read of standard input cannot be interrupted
	return l, nil
}

// SessionID implements sdk.Connection.
func (*lines) SessionID() string { return "" }

// Close implements sdk.Connection.
func (l *lines) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Read implements sdk.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-l.incoming:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return nil, fmt.Errorf("cannot read the messages of the client: %w", l.err)
		}
		return nil, io.EOF
	}
}

// Write implements sdk.Connection.
func (l *lines) Write(_ context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("cannot encode a message for the client: %w", err)
	}
	err = l.write(line)
	if answer, ok := m.(*jsonrpc.Response); ok { // a cancelled request has one too
		l.settle(answer.ID)
	}
	return err
}

func (l *lines) write(line []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if _, err := l.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("cannot send a message to the client: %w", err)
	}
	return nil
}

// settle records that the request is answered.
func (l *lines) settle(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.open, id); l.ended && len(l.open) == 0 {
		_ = l.Close()
	}
}

// follow reads the input until it ends.
func (l *lines) follow() {
	for {
		line, long, err := l.line()
		if line = bytes.TrimSpace(line); long {
			l.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a line is longer than %d bytes", maxRequest))
		} else if len(line) > 0 {
			l.take(line)
		}
		if err != nil {
			l.mu.Lock()
			if l.ended, l.err = true, err; len(l.open) == 0 {
				_ = l.Close()
			}
			l.mu.Unlock()
			return
		}
	}
}

// line returns the next line, or none if it is too long. The line is valid until the next call.
func (l *lines) line() (line []byte, long bool, err error) {
	line, err = l.in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		line, long = nil, true
		_, err = l.in.ReadSlice('\n')
	}
	return line, long, err
}

// take passes the message in a line on, or refuses it. Old versions of the protocol have batches of messages.
func (l *lines) take(line []byte) {
	if !json.Valid(line) {
		l.refuse(jsonrpc.CodeParseError, "a line is not JSON; each line must be one message")
		return
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) == nil && len(batch) > 0 {
		for _, message := range batch {
			l.message(message)
		}
		return
	}
	l.message(line)
}

func (l *lines) message(line []byte) {
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		l.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a line is no message of JSON-RPC 2.0: %v", err))
		return
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		l.mu.Lock()
		l.open[r.ID] = true
		l.mu.Unlock()
	}
	select {
	case l.incoming <- m:
	case <-l.closed:
	}
}

// refuse answers a line that is no message. Its id is not known.
func (l *lines) refuse(code int64, message string) {
	line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil,
		"error": map[string]any{"code": code, "message": message}})
	_ = l.write(line) // a client that is gone ends the input too
}
