package wasmguest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

//go:wasmimport conduit command_request
func commandRequest(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit command_response
func commandResponse(at unsafe.Pointer, size uint32) uint32

//go:wasmimport conduit create_schema
func createSchema(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit get_schema
func getSchema(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit http_request
func httpRequest(at unsafe.Pointer, space uint32) uint32

// Error codes that the functions of the host return instead of a size.
const (
	minCode             = 4294967195
	codeNoMoreCommands  = 4294967294
	codeSubjectNotFound = 4294967289
	codeVersionNotFound = 4294967288
	codeInvalidSchema   = 4294967287
)

// magicCookie is in the environment if a host of processors started the module.
const magicCookie = "3stnegqd0x02axggy0vrc4izjeq2zik6g7somyb3ye4vy5iivvjm5s1edppl5oja"

// Serve runs the processor for the host that started the module. It returns when the host
// has no more commands.
func Serve(plugin sdk.ProcessorPlugin) {
	if os.Getenv("CONDUIT_MAGIC_COOKIE") != magicCookie {
		fmt.Fprintln(os.Stderr, "This is a processor: put it into the processors directory of an agent.")
		os.Exit(1)
	}
	s := newServer(plugin, os.Getenv("CONDUIT_PROCESSOR_ID"), os.Getenv("CONDUIT_LOG_LEVEL"), os.Stdout, registry{})
	buffer := make([]byte, 64<<10)
	for {
		n := commandRequest(unsafe.Pointer(unsafe.SliceData(buffer)), uint32(len(buffer)))
		switch {
		case n == codeNoMoreCommands:
			return
		case n >= minCode:
			fmt.Fprintf(os.Stderr, "cannot get a command from the host: code %d\n", n)
			os.Exit(1)
		case n > uint32(len(buffer)):
			buffer = make([]byte, n)
			continue
		}
		answer := s.execute(buffer[:n])
		if code := commandResponse(unsafe.Pointer(unsafe.SliceData(answer)), uint32(len(answer))); code != 0 {
			fmt.Fprintf(os.Stderr, "cannot respond to a command of the host: code %d\n", code)
			os.Exit(1)
		}
	}
}

// call passes the request to a function of the host and returns the response.
func call(f func(unsafe.Pointer, uint32) uint32, request []byte) ([]byte, error) {
	buffer := make([]byte, max(len(request), 1))
	copy(buffer, request)
	n := f(unsafe.Pointer(unsafe.SliceData(buffer)), uint32(len(request)))
	if n < minCode && n > uint32(len(request)) {
		buffer = make([]byte, n)
		copy(buffer, request)
		n = f(unsafe.Pointer(unsafe.SliceData(buffer)), n)
	}
	if n >= minCode {
		return nil, hostError(n)
	}
	return buffer[:n], nil
}

func hostError(code uint32) error {
	switch code {
	case codeSubjectNotFound:
		return schema.ErrSubjectNotFound
	case codeVersionNotFound:
		return schema.ErrVersionNotFound
	case codeInvalidSchema:
		return schema.ErrInvalidSchema
	}
	if text, ok := egressErrors[code]; ok {
		return errors.New(text)
	}
	return fmt.Errorf("the host failed: code %d", code)
}

// registry is the schema registry of the host.
type registry struct{}

func (registry) Create(_ context.Context, subject string, typ schema.Type, text string) (schema.Schema, error) {
	b := appendText(nil, 1, subject)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(typ))
	return schemaFrom(call(createSchema, appendText(b, 3, text)))
}

func (registry) Get(_ context.Context, subject string, version int) (schema.Schema, error) {
	b := protowire.AppendTag(appendText(nil, 1, subject), 2, protowire.VarintType)
	return schemaFrom(call(getSchema, protowire.AppendVarint(b, uint64(version))))
}

func schemaFrom(answer []byte, err error) (s schema.Schema, _ error) {
	if err != nil {
		return s, err
	}
	return parseSchemaAnswer(answer)
}

// HTTP sends a request through the host. A processor can reach only the servers named in its setting sdk.egress.allow.
func HTTP(r Request) (Response, error) {
	answer, err := call(httpRequest, r.encode())
	if err != nil {
		return Response{}, fmt.Errorf("cannot send the request: %w", err)
	}
	return parseResponse(answer)
}
