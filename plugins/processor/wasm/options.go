package wasm

import (
	"log/slog"
	"time"
)

// Problem says why a file is not used.
type Problem struct {
	Path   string
	Reason string
}

// Options say where modules are and what they may do.
type Options struct {
	Dir      string       // need not exist yet; its subdirectories and hidden files do not count
	CacheDir string       // for compiled code and descriptions of modules; empty: they are made at every start
	Memory   int64        // bytes of memory that one instance may have; 0: 512 MiB
	Egress   EgressPolicy // what modules may reach over HTTP
	Log      *slog.Logger // nil discards
	Changed  func()       // when set, called after modules came, went or changed; must not block

	Interval       time.Duration // between two looks at Dir; 0: a second
	SpecifyTimeout time.Duration // for a compiled module to say what it is; 0: 10 s
}

const (
	defaultInterval       = time.Second
	defaultSpecifyTimeout = 10 * time.Second
	settling              = 300 * time.Millisecond // how long a file that was just written may be in the making
)
