package server

import "syscall"

// endWithTest makes a process end when the test program ends, however that ends.
func endWithTest(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
