package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// The modes of a destination, in addition to the modes of a source that end or hang it.
const (
	NeverAck     = "never ack"
	UnknownAck   = "unknown ack"   // acknowledges a record that it did not receive
	DuplicateAck = "duplicate ack" // acknowledges each record twice
	ReverseAck   = "reverse ack"   // acknowledges the last record of a batch first
	PartialAck   = "partial ack"   // acknowledges half of a batch and ends the stream
	SurplusAck   = "surplus ack"   // acknowledges one record more than it received
	Refuse       = "refuse"        // refuses every record
	RefuseSecond = "refuse second" // refuses the second record of every batch
	FailAfterAck = "fail after ack"
)

type destination struct {
	connectorv2.UnimplementedDestinationPluginServer
	mode string
}

// Configure accepts any settings.
func (d *destination) Configure(
	_ context.Context, req *connectorv2.Destination_Configure_Request,
) (*connectorv2.Destination_Configure_Response, error) {
	d.mode = req.GetConfig()["mode"]
	return &connectorv2.Destination_Configure_Response{}, nil
}

// Open does nothing.
func (d *destination) Open(
	context.Context, *connectorv2.Destination_Open_Request,
) (*connectorv2.Destination_Open_Response, error) {
	return &connectorv2.Destination_Open_Response{}, nil
}

// Run acknowledges records according to the mode.
func (d *destination) Run(
	stream grpc.BidiStreamingServer[connectorv2.Destination_Run_Request, connectorv2.Destination_Run_Response],
) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var acks []*connectorv2.Destination_Run_Response_Ack
		for _, r := range req.GetRecords() {
			acks = append(acks, &connectorv2.Destination_Run_Response_Ack{Position: r.GetPosition()})
		}
		acks, err = d.answer(acks)
		if len(acks) > 0 {
			if err := stream.Send(&connectorv2.Destination_Run_Response{Acks: acks}); err != nil {
				return err
			}
		}
		if err != nil {
			return ended(err)
		}
	}
}

var errEnd = errors.New("end of stream")

func ended(err error) error {
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// answer returns the acknowledgements to send instead of acks, and how to end the stream.
func (d *destination) answer(
	acks []*connectorv2.Destination_Run_Response_Ack,
) ([]*connectorv2.Destination_Run_Response_Ack, error) {
	n := len(acks)
	switch d.mode {
	case Crash:
		fmt.Fprintln(os.Stderr, "panic: chaos at a batch of", n)
		os.Exit(3)
	case Fail:
		return nil, errors.New("the database is gone")
	case FailAfterAck:
		return acks[:n/2], errors.New("the database is gone")
	case PartialAck:
		return acks[:n/2], errEnd
	case Hang:
		select {}
	case NeverAck:
		return nil, nil
	case UnknownAck:
		acks[0].Position = []byte("unknown")
	case SurplusAck:
		return append(acks, acks[n-1]), nil
	case DuplicateAck:
		return append(acks[:1:1], acks...), nil
	case ReverseAck:
		acks[0], acks[n-1] = acks[n-1], acks[0]
	case Refuse:
		for i := range acks {
			acks[i].Error = "no"
		}
	case RefuseSecond:
		if n > 1 {
			acks[1].Error = "not this one"
		}
	}
	return acks, nil
}

// Stop does nothing: no records are buffered.
func (d *destination) Stop(
	context.Context, *connectorv2.Destination_Stop_Request,
) (*connectorv2.Destination_Stop_Response, error) {
	if d.mode == StopHang || d.mode == Hang {
		select {}
	}
	return &connectorv2.Destination_Stop_Response{}, nil
}

// Teardown ends the destination.
func (d *destination) Teardown(
	context.Context, *connectorv2.Destination_Teardown_Request,
) (*connectorv2.Destination_Teardown_Response, error) {
	tearDown(d.mode)
	return &connectorv2.Destination_Teardown_Response{}, nil
}
