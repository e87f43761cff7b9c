package prove

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Disk is a file system in a file, whose power can be cut. The zero Disk is no separate file system.
type Disk struct{ image, dir string }

// diskBytes is the size of a Disk. It is small, so that it fills quickly.
const diskBytes = 128 << 20

// New makes a Disk at dir with its content in the file image. If it cannot, why gives the reason.
func New(image, dir string) (d *Disk, why string) {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return &Disk{}, err.Error()
	}
	if err := os.Truncate(image, diskBytes); err != nil {
		return &Disk{}, err.Error()
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		return &Disk{}, strings.TrimSpace(fmt.Sprintf("no file system can be made (%v): %s", err, out))
	}
	d = &Disk{image, dir}
	if err := d.mount(); err != nil {
		return &Disk{}, err.Error()
	}
	return d, ""
}

// Separate reports whether there is a disk.
func (d *Disk) Separate() bool { return d != nil && d.image != "" }

func (d *Disk) mount() error {
	out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("no file system can be mounted (%w): %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of fs/ext4/ext4.h: write nothing more, not even the journal.
const (
	ext4Shutdown = 0x8004587D
	noLogFlush   = 2
)

// Cut cuts the power: data that was not synced is lost.
func (d *Disk) Cut() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("cannot cut the power: %w", err)
	}
	defer f.Close()
	how := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ext4Shutdown,
		uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("cannot cut the power: %w", errno)
	}
	return nil
}

// Restore restores the power. It retries for a while, because the connectors of a killed agent end a little later.
func (d *Disk) Restore() error {
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

// empty removes the file that filled the disk, in case the power was cut before its removal was durable.
func (d *Disk) empty() error {
	if err := d.Free(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// probe fails if the kernel still returns the file system that was shut down.
func (d *Disk) probe() error {
	path := filepath.Join(d.dir, "probe")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("cannot write to the mounted disk: %w", err)
	}
	return os.Remove(path)
}

func (d *Disk) unmount() error {
	if out, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unmount %s (%w): %s", d.dir, err, out)
	}
	return nil
}

// Ballast returns the path of the file that fills the disk.
func (d *Disk) Ballast() string { return filepath.Join(d.dir, "full") }

// Fill fills the disk completely.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.Ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
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

// Free removes the file that fills the disk.
func (d *Disk) Free() error { return os.Remove(d.Ballast()) }

// Close removes the disk, once the connectors of the last agent have ended.
func (d *Disk) Close() error {
	if !d.Separate() {
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
