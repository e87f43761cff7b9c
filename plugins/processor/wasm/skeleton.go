package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/fuel"
)

// wazero decodes and validates a module even if its machine code is cached, and this takes most of the startup time.
// The cache therefore stores the machine code together with the skeleton of the module, under the name that wazero
// derives from the skeleton. Except for one file, the content of this directory belongs to wazero; it is only moved,
// never read.

func (c *cache) skeletonDir(sum string) string { return filepath.Join(c.dirOf(sum), "skeleton") }

func skeletonFile(dir string) string { return filepath.Join(dir, "module") }

// compileSkeleton compiles m from its skeleton and the cached machine code. It returns false if they are missing,
// damaged, or for another kind of CPU.
func (m *module) compileSkeleton(ctx context.Context) bool {
	c := &m.modules.cache
	dir := c.skeletonDir(m.sum)
	kept := c.read(skeletonFile(dir))
	if len(kept) < 8 {
		return false
	}
	_, before, err := machineCode(dir)
	if err == nil && binary.LittleEndian.Uint64(kept) != uint64(before.Size()) {
		err = errors.New("the machine code is not that of the module")
	}
	var e *engine
	var compiled wazero.CompiledModule
	if err == nil {
		e, compiled, err = m.compileIn(ctx, dir, kept[8:])
	}
	if err == nil {
		// wazero compiled the skeleton itself just now: its functions do nothing.
		if _, after, nerr := machineCode(dir); nerr != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
			err = errors.Join(errors.New("the machine code is for another kind of CPU"), e.close(context.WithoutCancel(ctx)))
		}
	}
	if err != nil {
		m.modules.Log.Info("compiling a processor again", "plugin_path", m.path, "err", err)
		_ = os.RemoveAll(dir)
		return false
	}
	m.use(e, compiled)
	return true
}

// keepSkeleton caches the skeleton of the metered module for the next start. The machine code of the module must be in
// the cache. A failure only makes the next start slower.
func (m *module) keepSkeleton(ctx context.Context, metered []byte) {
	if m.modules.cache.dir == "" {
		return
	}
	if err := m.linkSkeleton(ctx, metered); err != nil {
		m.modules.Log.Warn("cannot keep what was made of a processor", "plugin_path", m.path, "err", err)
	}
}

func (m *module) linkSkeleton(ctx context.Context, metered []byte) error {
	c := &m.modules.cache
	dir := c.skeletonDir(m.sum)
	making := dir + ".new"
	defer func() { _ = os.RemoveAll(making) }()
	code, info, err := machineCode(c.dirOf(m.sum))
	if err != nil {
		return err
	}
	skeleton, err := fuel.Skeleton(metered)
	if err != nil {
		return fmt.Errorf("cannot make its skeleton: %w", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(making)); err != nil {
		return err
	}
	e, _, err := m.compileIn(ctx, making, skeleton)
	if err != nil {
		return err
	}
	if err := e.close(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	own, _, err := machineCode(making)
	if err != nil {
		return err
	}
	if err := os.Rename(code, own); err != nil {
		return err
	}
	c.write(skeletonFile(making), append(binary.LittleEndian.AppendUint64(nil, uint64(info.Size())), skeleton...))
	if err := os.Rename(making, dir); err != nil {
		return err
	}
	return os.Remove(c.meteredFile(m.sum)) // made again if the module is compiled again
}

// machineCode returns the only file with machine code that wazero keeps in dir.
func machineCode(dir string) (path string, info fs.FileInfo, err error) {
	found, err := fs.Glob(os.DirFS(dir), "wazero-*/*")
	if err != nil || len(found) != 1 {
		return "", nil, errors.Join(err, fmt.Errorf("there are %d files with machine code in %s, want one", len(found), dir))
	}
	path = filepath.Join(dir, found[0])
	info, err = os.Stat(path)
	return path, info, err
}
