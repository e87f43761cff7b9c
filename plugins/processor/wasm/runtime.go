package wasm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// magicCookie proves to a guest that a host of processors started it.
const magicCookie = "3stnegqd0x02axggy0vrc4izjeq2zik6g7somyb3ye4vy5iivvjm5s1edppl5oja"

const (
	pageSize      = 64 << 10
	defaultMemory = 512 << 20
)

// engine compiles a module and runs its guests. Each module has its own engine, so that its compiled code is cached
// separately.
type engine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
}

// newEngine returns an engine that keeps compiled code in cacheDir and limits each guest to memory bytes. It works
// without a cache when cacheDir is empty or unusable.
func newEngine(ctx context.Context, cacheDir string, memory int64, log *slog.Logger) (*engine, error) {
	e := &engine{cache: wazero.NewCompilationCache()}
	if cacheDir != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err == nil {
			e.cache = kept
		} else {
			log.Warn("cannot keep compiled processors: they are compiled at every start", "path", cacheDir, "err", err)
		}
	}
	if memory == 0 {
		memory = defaultMemory
	}
	config := wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(e.cache).
		WithMemoryLimitPages(uint32(min(memory/pageSize, 65536))).
		WithCloseOnContextDone(true). // ends endless loops
		WithDebugInfoEnabled(false)
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, e.runtime); err != nil {
		return nil, fmt.Errorf("cannot provide WASI: %w", err)
	}
	if err := instantiateHost(ctx, e.runtime); err != nil {
		return nil, fmt.Errorf("cannot provide the functions of the host: %w", err)
	}
	return e, nil
}

func (e *engine) close(ctx context.Context) error {
	return errors.Join(e.runtime.Close(ctx), e.cache.Close(ctx))
}

// compile compiles a module. This is slow unless the compiled code is cached.
func (e *engine) compile(ctx context.Context, content []byte) (wazero.CompiledModule, error) {
	ctx = experimental.WithCompilationWorkers(ctx, max(1, runtime.NumCPU()/2))
	compiled, err := e.runtime.CompileModule(ctx, content)
	if err != nil {
		if !bytes.HasPrefix(content, []byte("\x00asm")) {
			err = errors.New("it is no WebAssembly module: build it with GOOS=wasip1 GOARCH=wasm")
		}
		return nil, fmt.Errorf("cannot compile it: %w", err)
	}
	if err := checkProcessor(compiled); err != nil {
		return nil, errors.Join(err, compiled.Close(ctx))
	}
	return compiled, nil
}

// checkProcessor checks that a module is a program that asks the host for commands.
func checkProcessor(compiled wazero.CompiledModule) error {
	asks := func(f api.FunctionDefinition) bool {
		module, name, _ := f.Import()
		return module == hostModule && name == commandRequest
	}
	switch {
	case !slices.ContainsFunc(compiled.ImportedFunctions(), asks):
		return fmt.Errorf("it is no processor: it does not import the function %s.%s", hostModule, commandRequest)
	case compiled.ExportedFunctions()["_start"] == nil:
		return errors.New(`it exports no function "_start": build it as a command, not as a library`)
	case len(compiled.ExportedMemories()) == 0:
		return errors.New("it exports no memory")
	}
	return nil
}

// guestConfig configures one guest.
type guestConfig struct {
	processorID string
	logLevel    string
	output      *output
	services    services
}

// start starts a guest. It waits for commands until stop or kill.
func (e *engine) start(ctx context.Context, compiled wazero.CompiledModule, c guestConfig) (*guest, error) {
	g := &guest{
		services: c.services, output: c.output,
		commands: make(chan []byte), replies: make(chan reply), done: make(chan struct{}),
	}
	g.ctx, g.kill = context.WithCancel(context.WithValue(context.Background(), guestKey{}, g))
	stop := context.AfterFunc(ctx, g.kill) // a module may run code while it is instantiated
	module, err := e.runtime.InstantiateModule(g.ctx, compiled, g.moduleConfig(c))
	if err == nil && !stop() {
		err = errors.Join(context.Cause(ctx), module.Close(context.Background()))
	}
	if err != nil {
		stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause // why the guest was ended
		}
		g.kill()
		return nil, fmt.Errorf("cannot start the processor: %w", err)
	}
	go g.run(module)
	return g, nil
}

func (g *guest) moduleConfig(c guestConfig) wazero.ModuleConfig {
	return wazero.NewModuleConfig().
		WithName(""). // allows any number of instances
		WithStartFunctions().
		WithEnv("CONDUIT_MAGIC_COOKIE", magicCookie).
		WithEnv("CONDUIT_PROCESSOR_ID", c.processorID).
		WithEnv("CONDUIT_LOG_LEVEL", c.logLevel).
		WithStdout(c.output.stream()).
		WithStderr(c.output.stream()).
		WithSysWalltime().
		WithSysNanotime().
		WithNanosleep(g.sleep).
		WithRandSource(rand.Reader)
}

// sleep sleeps for ns nanoseconds, or until the guest is killed.
func (g *guest) sleep(ns int64) {
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.ctx.Done():
	}
}

// logLevel returns the level at which a guest should write to log.
func logLevel(log *slog.Logger) string {
	for _, level := range []struct {
		level slog.Level
		name  string
	}{{slog.LevelDebug - 4, "trace"}, {slog.LevelDebug, "debug"}, {slog.LevelInfo, "info"}, {slog.LevelWarn, "warn"}} {
		if log.Enabled(context.Background(), level.level) {
			return level.name
		}
	}
	return "error"
}

// readModule reads a file that may be a module.
func readModule(path string) ([]byte, error) {
	return sdk.ReadFile(path, maxModule)
}

// maxModule bounds the size of a module's file.
const maxModule = 512 << 20

// users counts the users of a resource. The resource is closed when the last user ends.
type users struct {
	mu      sync.Mutex
	n       int
	retired bool
	close   func() error
}

func (u *users) add() {
	u.mu.Lock()
	u.n++
	u.mu.Unlock()
}

func (u *users) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	_ = u.closeUnused()
}

// retire makes the last user close the resource.
func (u *users) retire() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
	return u.closeUnused()
}

func (u *users) closeUnused() (err error) {
	if u.retired && u.n == 0 && u.close != nil {
		err = u.close()
		u.close = nil
	}
	return err
}
