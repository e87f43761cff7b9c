//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets of the data that a filter inspects.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16 // eight bytes each; the lower half comes first
)

// denied are system calls that connectors do not need and that lead out of a sandbox or increase the attack surface of
// the kernel: tracing other processes, other namespaces and mounts, programs in the kernel, and io_uring, which
// bypasses filters.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
	unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_SWAPON,
	unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SYSLOG,
}

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter returns the program that decides on each system call.
func (p *Policy) filter() []unix.SockFilter {
	program := []unix.SockFilter{load(atArch), jumpEqual(arch, 1, 0),
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_KILL_PROCESS}, load(atNumber)}
	program = append(program, foreign...)
	for _, number := range denied {
		program = append(program, on(number, fail(unix.EPERM))...)
	}
	program = append(program, on(unix.SYS_CLONE3, fail(unix.ENOSYS))...) // unreadable flags; callers use clone
	program = append(program, on(unix.SYS_CLONE, argument(0), jumpAny(namespaces, 0, 1), fail(unix.EPERM), allow)...)
	program = append(program, keepMark()...)
	if p.Strict {
		program = append(program, strict()...)
	}
	return append(program, allow)
}

// keepMark denies changes of RLIMIT_LOCKS, because its value marks the processes started by the agent's connectors.
func keepMark() []unix.SockFilter {
	const resource, value = 1, 2 // arguments of prlimit64
	return slices.Concat(
		on(unix.SYS_SETRLIMIT, argument(0), jumpEqual(unix.RLIMIT_LOCKS, 0, 1), fail(unix.EPERM), allow),
		on(unix.SYS_PRLIMIT64, argument(resource), jumpEqual(unix.RLIMIT_LOCKS, 1, 0), allow,
			argument(value), jumpEqual(0, 1, 0), fail(unix.EPERM),
			load(atArgs+8*value+4), jumpEqual(0, 0, 1), allow, fail(unix.EPERM)),
	)
}

// ownSocket is the length of the address of a socket in the working directory: the family, the name and a zero byte.
const ownSocket = 2 + SocketName + 1

// strict allows listening on Unix sockets, and connections to sockets in the working directory. It denies connections
// to other sockets by the length of the path, which differs from the length of an own name unless the path has as many
// bytes. All ways to shorten a path are denied: changing the directory, O_PATH with the links below /proc, and symbolic
// links, which Landlock refuses.
func strict() []unix.SockFilter {
	stream := []unix.SockFilter{argument(1), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		jumpEqual(unix.SOCK_STREAM, 1, 0), fail(unix.EACCES)}
	socket := append(stream[:len(stream):len(stream)], argument(0), jumpEqual(unix.AF_UNIX, 0, 1), allow,
		fail(unix.EACCES))
	var all []unix.SockFilter
	all = append(all, on(unix.SYS_SOCKET, socket...)...)
	all = append(all, on(unix.SYS_SOCKETPAIR, append(stream[:len(stream):len(stream)], allow)...)...)
	all = append(all, on(unix.SYS_CONNECT, argument(2), jumpEqual(ownSocket, 1, 0), fail(unix.EACCES), allow)...)
	all = append(all, on(unix.SYS_CHDIR, fail(unix.EACCES))...)
	all = append(all, on(unix.SYS_FCHDIR, fail(unix.EACCES))...)
	all = append(all, on(unix.SYS_OPENAT2, fail(unix.ENOSYS))...)
	all = append(all, on(unix.SYS_OPENAT, argument(2), jumpAny(unix.O_PATH, 0, 1), fail(unix.EACCES), allow)...)
	return append(all, openPath...)
}

var allow = unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}

// fail makes the call return an error.
func fail(errno unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// argument loads the lower half of an argument, which contains all bits of flags and lengths.
func argument(n uint32) unix.SockFilter { return load(atArgs + 8*n) }

// jumpEqual skips equal instructions if the loaded value equals value, else differs instructions.
func jumpEqual(value uint32, equal, differs uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: equal, Jf: differs}
}

// jumpAny skips some instructions if the loaded value has one of the bits, else none instructions.
func jumpAny(bits uint32, some, none uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: bits, Jt: some, Jf: none}
}

// on applies body, which always returns, to one system call.
func on(number uint32, body ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jumpEqual(number, 0, uint8(len(body)))}, body...)
}

// restrictCalls installs the program as the filter.
func restrictCalls(program []unix.SockFilter) error {
	if len(program) > math.MaxUint16 {
		return fmt.Errorf("cannot filter system calls: the filter has %d instructions", len(program))
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("cannot filter system calls: %w", errno)
	}
	return nil
}
