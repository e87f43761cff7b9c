package plugins

import (
	"cmp"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxDirty is the default of MostDirty.
const maxDirty = 32 << 20

// minTogether is the lowest number of files for which one sync of the whole disk is cheaper than a sync of each file.
const minTogether = 8

// syncAll syncs every member once, for all its jobs.
func (g *SyncGroup) syncAll(jobs []syncJob) {
	results := make(map[SyncMember]error, len(jobs))
	if len(jobs) >= minTogether {
		g.syncTogether(jobs, results)
	}
	for i := range jobs {
		j := &jobs[i]
		err, synced := results[j.member]
		if !synced {
			err = j.member.Sync()
			results[j.member] = err
		}
		j.err = err
	}
}

// syncTogether syncs the members that are files, and adds their results.
func (g *SyncGroup) syncTogether(jobs []syncJob, results map[SyncMember]error) {
	members := make([]sdk.FileSyncer, 0, len(jobs))
	files := make([]sdk.UnsyncedFile, 0, len(jobs))
	for _, j := range jobs {
		m, ok := j.member.(sdk.FileSyncer)
		if _, twice := results[j.member]; twice || !ok {
			continue
		}
		f, err := m.BeginSync()
		if results[j.member] = err; f.File != nil {
			members, files = append(members, m), append(files, f)
		}
	}
	errs := make([]error, len(files))
	if len(files) < minTogether || !syncWhole(files, errs, cmp.Or(g.MostDirty, maxDirty)) {
		syncEach(files, errs)
	}
	for i, m := range members {
		m.EndSync(errs[i])
		results[m] = errs[i]
	}
}

// syncEach syncs the files one after the other, and each directory with new files once.
func syncEach(files []sdk.UnsyncedFile, errs []error) {
	dirs := map[string]error{}
	for i, f := range files {
		if errs[i] = sdk.SyncFile(f.File); errs[i] != nil || f.Dir == "" {
			continue
		}
		err, synced := dirs[f.Dir]
		if !synced {
			err = sdk.SyncDir(f.Dir)
			dirs[f.Dir] = err
		}
		errs[i] = err
	}
}
