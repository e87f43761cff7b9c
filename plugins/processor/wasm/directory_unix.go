//go:build unix

package wasm

import (
	"io/fs"
	"syscall"
)

type change struct {
	dev, ino uint64
}

func changeOf(info fs.FileInfo) any {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return change{dev: uint64(st.Dev), ino: st.Ino} // types differ between systems
	}
	return nil
}
