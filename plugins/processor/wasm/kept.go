//go:build !minimal

package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/fuel"
	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb/processorv1"
)

// keptFile is where something that was made of a module with this sum is kept.
func (m *Modules) keptFile(kind, sum string) string { return filepath.Join(m.CacheDir, kind, sum) }

func (m *Modules) keptSpecification(sum string) *processorv1.Specify_Response {
	b := m.kept("specifications", sum)
	spec := &processorv1.Specify_Response{}
	if b == nil || proto.Unmarshal(b, spec) != nil || spec.GetName() == "" {
		return nil
	}
	return spec
}

func (m *Modules) keepSpecification(sum string, spec *processorv1.Specify_Response) {
	b, err := proto.Marshal(spec)
	if err != nil {
		m.Log.Warn("cannot keep what a processor says of itself", "err", err)
		return
	}
	m.keep("specifications", sum, b)
}

// metered returns the module with this sum in the form that is compiled: its loops ask the
// host whether to go on. content returns the module itself.
func (m *Modules) metered(sum string, content func() ([]byte, error)) ([]byte, error) {
	if kept := m.kept("metered", sum); kept != nil {
		return kept, nil
	}
	b, err := content()
	if err != nil {
		return nil, err
	}
	b, err = fuel.Meter(b, "conduit", "command_request")
	if errors.Is(err, fuel.ErrNoImport) {
		return nil, fmt.Errorf("it is no processor: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot compile it: %w", err)
	}
	m.keep("metered", sum, b)
	return b, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kept returns what is kept, nil when that is nothing or was torn by a power cut.
func (m *Modules) kept(kind, sum string) []byte {
	if m.CacheDir == "" {
		return nil
	}
	b, err := os.ReadFile(m.keptFile(kind, sum))
	if err != nil || len(b) < crc32.Size {
		return nil
	}
	b, check := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(check) {
		return nil
	}
	return b
}

// keep keeps b with its checksum. That it cannot costs time at the next start.
func (m *Modules) keep(kind, sum string, b []byte) {
	if m.CacheDir == "" {
		return
	}
	path := m.keptFile(kind, sum)
	b = binary.LittleEndian.AppendUint32(b[:len(b):len(b)], crc32.Checksum(b, castagnoli))
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		m.Log.Warn("cannot keep what was made of a processor", "err", err)
	}
}
