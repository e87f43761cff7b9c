package file

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// durable syncs the file of a destination, at once or when the host requests it. A pipe or a terminal needs no sync.
type durable struct {
	syncing sync.Mutex // held while the file is synced or replaced

	mu      sync.Mutex
	file    *os.File // guarded by mu; changes are also guarded by syncing; nil when there is nothing to sync
	dir     string   // guarded by mu: directory to sync too, for the name of a new file
	written bool     // guarded by mu: written to since the last sync
	err     error    // guarded by mu: a sync failed, and the synced data is lost
	device  uint64   // guarded by mu
}

// use syncs the current file and replaces it by f; nil for none.
func (d *durable) use(f *os.File, info os.FileInfo) error {
	err := d.Sync()
	d.syncing.Lock()
	defer d.syncing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file, d.dir = nil, ""
	if f == nil || !info.Mode().IsRegular() {
		return err
	}
	d.file, d.dir = f, filepath.Dir(f.Name())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		d.device = uint64(stat.Dev)
	}
	return err
}

// wrote schedules a sync with syncLater, or syncs at once if syncLater is nil.
func (d *durable) wrote(syncLater func(sdk.Syncer)) error {
	d.mu.Lock()
	if d.file == nil || d.err != nil {
		defer d.mu.Unlock()
		return d.err
	}
	first := !d.written
	d.written = true
	d.mu.Unlock()
	if syncLater == nil {
		return d.Sync()
	}
	if first {
		syncLater(d)
	}
	return nil
}

// Sync implements sdk.Syncer.
func (d *durable) Sync() error {
	f, err := d.BeginSync()
	if f.File == nil {
		return err
	}
	if err = sdk.SyncFile(f.File); err == nil && f.Dir != "" {
		err = sdk.SyncDir(f.Dir)
	}
	d.EndSync(err)
	return err
}

// BeginSync implements sdk.FileSyncer.
func (d *durable) BeginSync() (sdk.UnsyncedFile, error) {
	d.syncing.Lock()
	d.mu.Lock()
	defer d.mu.Unlock()
	written := d.written
	d.written = false
	if !written || d.err != nil {
		d.syncing.Unlock()
		return sdk.UnsyncedFile{}, d.err
	}
	return sdk.UnsyncedFile{File: d.file, Dir: d.dir}, nil
}

// EndSync implements sdk.FileSyncer.
func (d *durable) EndSync(err error) {
	defer d.syncing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err = err; err == nil {
		d.dir = ""
	}
}

// Device implements sdk.Syncer.
func (d *durable) Device() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.device
}
