//go:build !linux || (!amd64 && !arm64)

package sandbox

import "errors"

// Version returns 0: this system has no Landlock.
func Version() int { return 0 }

func (p *Policy) become(string) error {
	return errors.New("the sandbox needs Linux on amd64 or arm64; to run connectors without it, set " +
		"connectors.sandbox to off")
}
