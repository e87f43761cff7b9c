//go:build !linux

package prove

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }

func childrenOf(int) []int { return nil }

func clocks() (ok bool, why string) { return false, "only Linux has time namespaces" }

func withClocks(int64) []string { return nil }

// disk is a file system of its own. There is none.
type disk struct{}

func newDisk(_, _ string) (d *disk, why string) { return &disk{}, "only Linux offers it" }

func (d *disk) separate() bool { return false }
func (d *disk) cut() error     { return nil }
func (d *disk) restore() error { return nil }
func (d *disk) fill() error    { return nil }
func (d *disk) free() error    { return nil }
func (d *disk) close() error   { return nil }
