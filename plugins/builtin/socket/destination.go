package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	// Whether to connect to the address, or to listen there and send every record to all connected clients.
	Mode string `json:"mode" default:"connect" validate:"inclusion=connect|listen"`
	// Template of the frame. Empty: the payload after the change, as it is or as JSON.
	Frame string `json:"frame" template:"true"`
	// What happens to a record whose frame contains the delimiter, with lines: it is refused, or each delimiter in it
	// becomes a space.
	InFrame string `json:"delimiter.inFrame" default:"refuse" validate:"inclusion=refuse|space"`
	// Maximum size of a frame in bytes. A record with a longer frame is refused.
	MaxBytes int `json:"maxBytes" default:"1048576" validate:"gt=0,lt=1000000000"`
	// Whether records wait while no client is connected to a listener (client), or are discarded (none).
	Require string `json:"require" default:"client" validate:"inclusion=client|none"`
	// Maximum number of clients of a listener. Further ones are closed.
	Connections int `json:"limit.connections" default:"100" validate:"gt=0"`
	// Timeout of connecting, and of sending and acknowledgements without progress. A client of a listener is then
	// disconnected.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`
	// Time for which connecting and sending are retried. After that the pipeline fails and is restarted with backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`

	commonSettings
}

// Destination sends frames.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	endpoint  endpoint
	tls       *tls.Config        // nil: no TLS
	frame     *template.Template // nil: the payload
	timeLimit template.TimeLimit

	sender  *sockets.Sender // nil if it listens
	clients *clients        // nil before Open, and unless it listens
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() (err error) {
		s := &d.settings
		listens := s.Mode == "listen"
		if d.endpoint, err = s.endpoint(ctx, listens); err != nil {
			return err
		}
		d.frame = nil
		if s.Frame != "" {
			if d.frame, err = common.ParseTemplate("frame", s.Frame, nil); err != nil {
				return err
			}
		}
		switch {
		case !listens:
			d.tls, err = s.clientTLS(d.endpoint)
		case d.endpoint.packets():
			return sdk.SettingError{Setting: "mode", Message: "must be connect for packets: they have no connected clients"}
		default:
			d.tls, err = s.serverTLS(d.endpoint)
		}
		return err
	})
}

// Open prepares the destination. Write connects. A listener starts listening.
func (d *Destination) Open(ctx context.Context) error {
	if !d.endpoint.listens {
		d.sender = &sockets.Sender{Network: d.endpoint.network, Address: d.endpoint.address, TLS: d.tls,
			Timeout: d.settings.Timeout, RetryFor: d.settings.RetryFor}
		return nil
	}
	l, err := d.endpoint.listen(ctx, d.settings.UnixMode)
	if err != nil {
		return fmt.Errorf("cannot listen for clients: %w", err)
	}
	d.clients = newClients(sdk.Logger(ctx), &d.settings, d.tls)
	d.clients.accept(l)
	return nil
}

// Write sends the records. The protocols have no acknowledgements. A record sent over a connection is written when the
// kernel of the other side has acknowledged it and the connection is still open. A packet is written when the local
// kernel has accepted it.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	if d.Overlaps() {
		n, result, refused := d.Begin(ctx, records)
		if n > 0 {
			if done, err := result(ctx); err != nil {
				return done, err
			}
		}
		return n, refused
	}
	packets, refused := d.messages(ctx, records)
	if n, err := d.sender.Write(ctx, packets); err != nil {
		return n, err
	}
	return len(packets), refused
}

// Overlaps reports whether Begin can send more records before earlier ones are acknowledged.
func (d *Destination) Overlaps() bool { return !d.endpoint.packets() }

// Begin sends the records. The result waits until they are acknowledged, and sends them again over other connections if
// necessary.
func (d *Destination) Begin(ctx context.Context, records []record.Record) (int, sdk.WriteResult, error) {
	messages, refused := d.messages(ctx, records)
	switch {
	case len(messages) == 0:
		return 0, nil, refused
	case d.clients != nil:
		return len(messages), d.clients.begin(ctx, messages), refused
	}
	return len(messages), d.sender.Begin(ctx, messages), refused
}

// messages converts the records up to the first one that has no valid frame, and returns its error.
func (d *Destination) messages(ctx context.Context, records []record.Record) (all [][]byte, err error) {
	d.timeLimit.Begin(ctx)
	for i := range records {
		frame, err := d.frameOf(&records[i])
		if err == nil && !d.endpoint.packets() {
			frame, err = d.settings.wrap(frame)
		}
		if err != nil {
			return all, err
		}
		all = append(all, frame)
	}
	return all, nil
}

// frameOf returns the frame of a record.
func (d *Destination) frameOf(r *record.Record) (frame []byte, err error) {
	raw, isRaw := r.After.Raw()
	switch {
	case d.frame != nil:
		if frame, err = d.frame.Append(&d.timeLimit, nil, r); err != nil {
			return nil, fmt.Errorf("cannot execute the template of frame: %w", err)
		}
	case r.After.IsNone():
		return nil, errors.New("cannot send the record: it has no payload after the change: set frame, or remove " +
			"deletes with the processor filter")
	case isRaw:
		frame = append(frame, raw...) // a copy, because records are lent
	default:
		if frame, err = r.After.AppendJSON(nil); err != nil {
			return nil, fmt.Errorf("cannot encode the payload: %w", err)
		}
	}
	switch n := len(frame); {
	case n == 0:
		return nil, errors.New("cannot send the record: its frame is empty, and receivers skip empty frames")
	case n > d.settings.MaxBytes:
		return nil, fmt.Errorf("cannot send the record: its frame has %d bytes, more than maxBytes (%d)", n,
			d.settings.MaxBytes)
	}
	return frame, nil
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	if d.sender != nil {
		d.sender.Close()
	}
	if d.clients != nil {
		return d.clients.close()
	}
	return nil
}
