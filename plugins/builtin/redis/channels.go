package redis

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/sources"
	"github.com/conduit-agent/conduit/plugins/record"
)

// channels subscribes to channels. What is published while there is no connection is lost: the
// server keeps nothing.
type channels struct {
	settings *sourceSettings
	numbers  sources.Numbers
}

func newChannels(settings *sourceSettings, pos record.Position) (*channels, error) {
	n, err := sources.NewNumbers(pos)
	return &channels{settings: settings, numbers: n}, err
}

// connected subscribes, and returns when the server has answered for all.
func (s *channels) connected(_ context.Context, c redis.Conn) error {
	for _, channel := range s.settings.Key {
		command := "SUBSCRIBE"
		if isPattern(channel) {
			command = "PSUBSCRIBE"
		}
		if err := c.Send(command, channel); err != nil {
			return err
		}
	}
	if err := c.Flush(); err != nil {
		return err
	}
	for range s.settings.Key {
		if _, err := c.Receive(); err != nil {
			return err
		}
	}
	return nil
}

// read waits for a message, and pings the server when none came for a while: a server that has nothing to say
// answers, and one that is gone does not.
func (s *channels) read(_ context.Context, c redis.Conn) ([]record.Record, error) {
	sub := redis.PubSubConn{Conn: c}
	pinged := make(chan struct{})
	ping := time.AfterFunc(blockTime, func() {
		defer close(pinged)
		_ = sub.Ping("") // an error closes the connection, and with it ends what is received
	})
	received := sub.ReceiveWithTimeout(blockTime + s.settings.Timeout)
	if !ping.Stop() {
		<-pinged // the connection takes one sender at a time
	}
	switch m := received.(type) {
	case redis.Message:
		r := record.Record{Position: s.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(m.Data)}
		r.Metadata.Set(record.KeyCollection, record.ValidName(m.Channel))
		return []record.Record{r}, nil
	case error:
		if hasCode(m, "NOPERM") { // the user may not ping, and the server answered all the same
			return nil, nil
		}
		return nil, m
	}
	return nil, nil
}

func (s *channels) ack(context.Context, int) error { return nil }

func (s *channels) close(context.Context) {}
