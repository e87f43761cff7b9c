//go:build !linux

package prove

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }

func childrenOf(int) []int { return nil }

func clocks() (ok bool, why string) { return false, "only Linux has time namespaces" }

func withClocks(int64) []string { return nil }
