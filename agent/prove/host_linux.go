package prove

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// withParent has the agent end with this process.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// childrenOf returns the processes that a process started.
func childrenOf(pid int) (all []int) {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// clocks reports whether processes can be given clocks of their own, and why not.
func clocks() (ok bool, why string) {
	args := append(withClocks(1000), "true")
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return false, strings.TrimSpace(fmt.Sprintf("no time namespace can be made (%v): %s", err, out))
	}
	return true, ""
}

// withClocks returns what to put before a command for clocks that are so many seconds ahead of
// those of the host: the ones that timers go by, not the time of day.
func withClocks(seconds int64) []string {
	offset := strconv.FormatInt(seconds, 10)
	return []string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", offset, "--boottime", offset}
}

// disk is a file system of its own, of which the power can be cut. The zero disk is none.
type disk struct{ image, dir string }

// diskBytes is the size of it: small, to be filled soon.
const diskBytes = 128 << 20

// newDisk makes a disk at dir. why says why there is none.
func newDisk(image, dir string) (d *disk, why string) {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return &disk{}, err.Error()
	}
	if err := os.Truncate(image, diskBytes); err != nil {
		return &disk{}, err.Error()
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		return &disk{}, strings.TrimSpace(fmt.Sprintf("no file system can be made (%v): %s", err, out))
	}
	d = &disk{image, dir}
	if err := d.mount(); err != nil {
		return &disk{}, err.Error()
	}
	return d, ""
}

// separate reports whether there is a disk.
func (d *disk) separate() bool { return d != nil && d.image != "" }

func (d *disk) mount() error {
	out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("no file system can be mounted (%w): %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of fs/ext4/ext4.h: write nothing more, not
// even the journal.
const (
	ext4Shutdown = 0x8004587D
	noLogFlush   = 2
)

// cut takes the power away: what is not on the disk never gets there.
func (d *disk) cut() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("cannot cut the power: %w", err)
	}
	defer f.Close()
	how := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("cannot cut the power: %w", errno)
	}
	return nil
}

// restore brings the power back. The connectors of an agent that was killed end soon after it.
func (d *disk) restore() error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := d.unmount()
		if err == nil {
			if err = d.mount(); err == nil {
				err = d.probe()
			}
		}
		switch {
		case err == nil:
			return d.empty()
		case time.Since(began) > time.Minute:
			return err
		}
	}
}

// empty removes what filled the disk, where the power was cut before the disk had that it was removed.
func (d *disk) empty() error {
	if err := d.free(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// probe fails when the kernel hands out the file system that went down again.
func (d *disk) probe() error {
	path := filepath.Join(d.dir, "probe")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("cannot write to what was mounted: %w", err)
	}
	return os.Remove(path)
}

func (d *disk) unmount() error {
	if out, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unmount %s (%w): %s", d.dir, err, out)
	}
	return nil
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "full") }

// fill leaves no space.
func (d *disk) fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot fill the disk: %w", err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
	return nil
}

// free removes what fills the disk.
func (d *disk) free() error { return os.Remove(d.ballast()) }

// close removes the disk, once the connectors of the last agent have ended.
func (d *disk) close() error {
	if !d.separate() {
		return nil
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := d.unmount()
		if err == nil {
			return nil
		}
		if time.Since(began) > 5*time.Second {
			return errors.Join(err, exec.Command("umount", "--lazy", d.dir).Run())
		}
	}
}
