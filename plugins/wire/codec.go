package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for all other messages
	"google.golang.org/grpc/mem"
)

// Frame is an encoded message. A Frame passed to a stream belongs to the stream.
type Frame []byte

// Codec passes frames unchanged and leaves all other messages to protobuf. It has the name of the protobuf codec, so
// the other side sees no difference.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns the codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2("proto")} }

// Marshal returns the encoded form of v.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(Frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads data into v.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*Frame); ok {
		*f = data.Materialize()
		return nil
	}
	if _, ok := v.(Frame); ok {
		return fmt.Errorf("cannot decode into a wire.Frame: use a pointer")
	}
	return c.CodecV2.Unmarshal(data, v)
}
