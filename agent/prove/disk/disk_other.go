//go:build !linux

// Package disk makes file systems of which the power can be cut.
package disk

// Disk is a file system of its own. There is none.
type Disk struct{}

// New returns why there is no Disk.
func New(_, _ string) (d *Disk, why string) { return &Disk{}, "only Linux offers it" }

// Separate reports whether there is a disk.
func (d *Disk) Separate() bool { return false }

// Cut takes the power away.
func (d *Disk) Cut() error { return nil }

// Restore brings the power back.
func (d *Disk) Restore() error { return nil }

// Fill leaves no space.
func (d *Disk) Fill() error { return nil }

// Free removes what fills the disk.
func (d *Disk) Free() error { return nil }

// Close removes the disk.
func (d *Disk) Close() error { return nil }
