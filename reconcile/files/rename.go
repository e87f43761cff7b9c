package files

import (
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

// warnOfRenames warns of new pipelines that equal a withdrawn one except for the id: their sources start over.
func (d *decision) warnOfRenames(declared []spec.Declaration) {
	if len(d.added) == 0 {
		return
	}
	old := map[string]string{}
	for i := range declared {
		have := &declared[i]
		gone := d.claims[have.Pipeline.ID] == nil && !d.unreadable(have.Owner.Path)
		if have.Owner.Kind == spec.OwnerFile && gone && !have.Purge {
			old[anonymous(&have.Pipeline)] = have.Pipeline.ID
		}
	}
	for _, p := range d.added {
		if len(old) == 0 {
			return
		}
		if id := old[anonymous(p)]; id != "" {
			d.event(p.ID, d.claims[p.ID][0].path, spec.EventWarning, "LooksRenamed",
				fmt.Sprintf("pipeline %q has the content of %q, which is withdrawn: under another id its sources "+
					"start over; to resume from the checkpoint of %[2]q, give it that id again within "+
					"pipelines.cleanup-delay; its name may "+
					"be another", p.ID, id))
		}
	}
}

// anonymous identifies everything in p that affects how it runs, except its id.
func anonymous(p *spec.Pipeline) string {
	unnamed := *p
	unnamed.ID = ""
	return spec.RunDigest(&unnamed)
}
