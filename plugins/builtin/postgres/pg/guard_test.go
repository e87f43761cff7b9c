package pg

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCanceledWhileTheServerIsAsked cancels a session during the query for its state. The session does not wait for the
// answer to the query.
func TestCanceledWhileTheServerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, server := net.Pipe()
		defer func() { _ = server.Close() }()
		var asked atomic.Bool
		g := &guard{Conn: session, pid: 1, silence: time.Minute, env: t.Context(),
			url: "postgres://postgres@127.0.0.1/postgres?sslmode=disable",
			redial: func(context.Context) (net.Conn, error) {
				asked.Store(true)
				question, nobody := net.Pipe()
				t.Cleanup(func() { _ = nobody.Close() })
				return question, nil
			}}
		defer func() { _ = g.Close() }()
		ended := make(chan error, 1)
		go func() {
			_, err := g.Read(make([]byte, 1))
			ended <- err
		}()
		time.Sleep(time.Minute + time.Second)
		if !asked.Load() {
			t.Fatal("the server is not asked")
		}
		canceled := time.Now()
		if err := g.SetReadDeadline(canceled); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Equal(canceled) {
			t.Errorf("reading ends %v later: %v", time.Since(canceled), err)
		}
	})
}
