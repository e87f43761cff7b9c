package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for everything else
	"google.golang.org/grpc/mem"
)

// frame is an encoded message. A frame handed to a stream belongs to it.
type frame []byte

// codec passes frames as they are and leaves all other messages to protobuf. It keeps
// protobuf's name, so the other side cannot tell.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal returns the encoded form of v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads data into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		*f = data.Materialize()
		return nil
	}
	if _, ok := v.(frame); ok {
		return fmt.Errorf("cannot read into a frame: want a pointer")
	}
	return c.CodecV2.Unmarshal(data, v)
}
