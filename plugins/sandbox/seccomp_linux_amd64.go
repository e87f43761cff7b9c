package sandbox

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// foreign denies the calls of another interface, whose numbers are larger.
var foreign = []unix.SockFilter{
	{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jt: 0, Jf: 1}, fail(unix.ENOSYS),
}

// openPath denies open with O_PATH.
var openPath = on(unix.SYS_OPEN, argument(1), jumpAny(unix.O_PATH, 0, 1), fail(unix.EACCES), allow)
