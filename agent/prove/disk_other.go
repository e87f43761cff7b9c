//go:build !linux

package prove

// Disk is not supported on this system.
type Disk struct{}

// New returns the reason why there is no Disk.
func New(_, _ string) (d *Disk, why string) { return &Disk{}, "only Linux offers it" }

// Separate reports whether there is a disk.
func (d *Disk) Separate() bool { return false }

// Cut cuts the power.
func (d *Disk) Cut() error { return nil }

// Restore restores the power.
func (d *Disk) Restore() error { return nil }

// Fill fills the disk completely.
func (d *Disk) Fill() error { return nil }

// Free removes the file that fills the disk.
func (d *Disk) Free() error { return nil }

// Close removes the disk.
func (d *Disk) Close() error { return nil }
