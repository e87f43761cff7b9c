package parse

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/syslog"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// syslogMessage parses a message of syslog.
type syslogMessage struct {
	options
	// Format of the message: auto takes a message with a priority and the version 1 for one of RFC 5424, and others for
	// ones of RFC 3164.
	Format string `json:"format" default:"auto" validate:"inclusion=auto|rfc5424|rfc3164"`
	// Time zone of timestamps without one, such as Europe/Zurich. One without a year is in the year in which it is
	// nearest to the time of the agent.
	Zone string `json:"zone" default:"UTC"`
}

func (s *syslogMessage) compile() (parseFunc, error) {
	zone, err := texttype.Zone("zone", s.Zone)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, v any, m *memory) (any, error) {
		var b []byte
		switch v := v.(type) {
		case []byte:
			b = v
		case string:
			b = []byte(v)
		default:
			return nil, fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
		}
		p := syslog.Parser{Zone: zone, Now: sdk.Now(ctx), Take: m.take}
		var message syslog.Message
		var err error
		if s.Format == "rfc5424" || s.Format == "auto" && syslog.Is5424(b) {
			message, err = p.Parse5424(b)
		} else {
			message, err = p.Parse3164(b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", texttype.Quoted(string(b[:min(len(b), 80)])), err)
		}
		return message.Object(), nil
	}, nil
}
