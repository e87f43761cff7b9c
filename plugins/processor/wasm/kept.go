//go:build !minimal

package wasm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/fuel"
	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb/processorv1"
)

// made is the version of what is made of modules: of how they are rewritten, and of what
// compiles them. Another version makes it anew.
var made = sync.OnceValue(func() string {
	version := fmt.Sprint(fuel.Version)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				version += "-" + d.Version
			}
		}
	}
	return version
})

// keptDir is where all that was made of the module with this sum is kept, empty when nothing is.
func (m *Modules) keptDir(sum string) string {
	if m.CacheDir == "" {
		return ""
	}
	return filepath.Join(m.CacheDir, sum+"."+made())
}

// keepUsed notes that what is kept of a module is used.
func (m *Modules) keepUsed(sum string) {
	if dir := m.keptDir(sum); dir != "" {
		_ = os.Chtimes(dir, time.Now(), time.Now()) // without it, it goes earlier
	}
}

// keptSum returns the sum of the file, empty when that is not known: where its identity is
// what it was, its content is.
func (m *Modules) keptSum(path string, s stamp) string { return string(m.kept(m.sumFile(path, s))) }

func (m *Modules) keepSum(path string, s stamp, sum string) {
	m.keep(m.sumFile(path, s), []byte(sum))
}

// sums is the directory with the sums of files.
const sums = "sums"

func (m *Modules) sumFile(path string, s stamp) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	of := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %o %v", path, s.size, s.mtime.UnixNano(), s.mode, s.changed))
	return filepath.Join(m.CacheDir, sums, hex.EncodeToString(of[:]))
}

func (m *Modules) specificationFile(sum string) string {
	return filepath.Join(m.keptDir(sum), "specification")
}

func (m *Modules) keptSpecification(sum string) *processorv1.Specify_Response {
	if sum == "" {
		return nil
	}
	b := m.kept(m.specificationFile(sum))
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
	m.keep(m.specificationFile(sum), b)
}

// metered returns the module with this sum in the form that is compiled: its loops ask the
// host whether to go on. content returns the module itself.
func (m *Modules) metered(sum string, content func() ([]byte, error)) ([]byte, error) {
	file := filepath.Join(m.keptDir(sum), "metered")
	if kept := m.kept(file); kept != nil {
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
	m.keep(file, b)
	return b, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kept returns what is kept, nil when that is nothing or was torn by a power cut.
func (m *Modules) kept(file string) []byte {
	if m.CacheDir == "" {
		return nil
	}
	b, err := os.ReadFile(file)
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
func (m *Modules) keep(path string, b []byte) {
	if m.CacheDir == "" {
		return
	}
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
