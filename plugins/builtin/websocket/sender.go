package websocket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// sender is a destination that connects to a server.
type sender struct {
	settings *destinationSettings
	network  dialer
	conn     *conn // nil when not connected
	works    bool  // the server has read a message
}

// write implements target. After a lost connection it reconnects, and sends the messages without an answer again.
func (s *sender) write(ctx context.Context, messages [][]byte) (done int, err error) {
	var again common.Backoff
	most := maxSent
	for begin := time.Now(); done < len(messages); {
		n := portion(messages[done:], most)
		err := s.try(ctx, messages[done:done+n])
		if err == nil {
			begin, again, done, s.works = time.Now(), common.Backoff{}, done+n, true
			continue
		}
		var closed closedError
		blamed := errors.As(err, &closed) && closed.blames()
		switch {
		case ctx.Err() != nil:
			return done, ctx.Err()
		case blamed && n == 1 && !s.works:
			return done, sdk.Unavailable(fmt.Errorf("cannot send: %w, check url and type: it has read no message "+
				"since the start", err))
		case blamed && n == 1:
			return done, fmt.Errorf("the server refused the message of the record: %w", err)
		case blamed: // one by one, to find the message to blame
			most = 1
			continue
		case errors.As(err, new(deniedError)), time.Since(begin) >= s.settings.RetryFor:
			return done, sdk.Unavailable(fmt.Errorf("cannot send: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot send, retrying", "err", err, "tries", again.Tries+1)
		if err := again.Wait(ctx); err != nil {
			return done, err
		}
	}
	return done, nil
}

// try sends messages over the connection, which it opens first if need be.
func (s *sender) try(ctx context.Context, messages [][]byte) error {
	if s.conn != nil && s.conn.lost() {
		s.drop()
	}
	if s.conn == nil {
		c, err := s.settings.dial(ctx, s.network)
		if err != nil {
			return err
		}
		go c.discard()
		s.conn = c
	}
	err := s.conn.deliver(ctx, s.settings.binary(), messages)
	if err != nil {
		s.drop()
	}
	return err
}

func (s *sender) drop() {
	s.conn.drop()
	<-s.conn.ended
	s.conn = nil
}

// close implements target.
func (s *sender) close(context.Context) error {
	if s.conn != nil {
		s.conn.close(statusDone, "")
		s.drop()
	}
	return nil
}
