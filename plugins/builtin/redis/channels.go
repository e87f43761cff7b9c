package redis

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
)

// channels subscribes to channels. Messages published while there is no connection are lost: the server keeps none.
type channels struct {
	settings *sourceSettings
	numbers  common.Numbers
}

func newChannels(settings *sourceSettings, pos record.Position) (*channels, error) {
	n, err := common.NewNumbers(pos)
	return &channels{settings: settings, numbers: n}, err
}

// connected subscribes to all channels and returns after the server has confirmed each subscription.
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

// read waits for a message. After blockTime without one it pings the server: an idle server answers, a dead one does
// not.
func (s *channels) read(_ context.Context, c redis.Conn) ([]record.Record, error) {
	sub := redis.PubSubConn{Conn: c}
	pinged := make(chan struct{})
	ping := time.AfterFunc(blockTime, func() {
		defer close(pinged)
		_ = sub.Ping("") // an error closes the connection, which ends the receive
	})
	received := sub.ReceiveWithTimeout(blockTime + s.settings.Timeout)
	if !ping.Stop() {
		<-pinged // the connection allows one sender at a time
	}
	switch m := received.(type) {
	case redis.Message:
		r := record.Record{Position: s.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(m.Data)}
		r.Metadata.Set(record.KeyCollection, record.ValidName(m.Channel))
		return []record.Record{r}, nil
	case error:
		if hasCode(m, "NOPERM") { // the user may not ping, but the server has answered
			return nil, nil
		}
		return nil, m
	}
	return nil, nil
}

func (s *channels) ack(context.Context, int) error { return nil }

func (s *channels) close(context.Context) {}
