package wasm

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
)

// made is the version of the cached files. wazero never uses the code that another version compiled; with the version
// in the name, that code is pruned.
var made = sync.OnceValue(func() string {
	version := "wazero"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				version += "-" + d.Version
			}
		}
	}
	return version
})

// cache keeps on disk the results of slow operations on modules.
type cache struct {
	dir string // empty: no cache
	log *slog.Logger
}

// dirOf returns the directory of the cached files for the module with this checksum, or an empty string without a
// cache.
func (c *cache) dirOf(sum string) string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, sum+"."+made())
}

// touch records that the cached files of a module are in use.
func (c *cache) touch(sum string) {
	if dir := c.dirOf(sum); dir != "" {
		_ = os.Chtimes(dir, time.Now(), time.Now()) // if this fails, the files are pruned earlier
	}
}

func (c *cache) specificationFile(sum string) string {
	return filepath.Join(c.dirOf(sum), "specification")
}

func (c *cache) specification(sum string) *wasmpb.Specify_Response {
	b := c.read(c.specificationFile(sum))
	spec := &wasmpb.Specify_Response{}
	if b == nil || proto.Unmarshal(b, spec) != nil || spec.GetName() == "" {
		return nil
	}
	return spec
}

func (c *cache) keepSpecification(sum string, spec *wasmpb.Specify_Response) {
	b, err := proto.Marshal(spec)
	if err != nil {
		c.log.Warn("cannot cache the specification of a processor", "err", err)
		return
	}
	c.write(c.specificationFile(sum), b)
}

// codeDir returns the directory for the compiled code of a module, or an empty string without a cache. Its content
// belongs to wazero.
func (c *cache) codeDir(sum string) string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dirOf(sum), "code")
}

// dropCode removes the compiled code of a module, which may be damaged. It returns false if there is none.
func (c *cache) dropCode(sum string) bool {
	dir := c.codeDir(sum)
	files, err := fs.Glob(os.DirFS(dir), "*/*")
	return dir != "" && err == nil && len(files) > 0 && os.RemoveAll(dir) == nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// read returns the cached content, or nil if there is none or it was torn by a power cut.
func (c *cache) read(file string) []byte {
	if c.dir == "" {
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

// write writes b with its checksum. A failure only makes the next start slower.
func (c *cache) write(path string, b []byte) {
	if c.dir == "" {
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
		c.log.Warn("cannot cache the compiled module of a processor", "err", err)
	}
}
