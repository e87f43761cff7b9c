package api

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/spec"
)

// keepSecrets replaces *** in settings by the value in old. at is the path of the settings in the request.
func keepSecrets(settings, old map[string]string, at string) (map[string]string, error) {
	settings = maps.Clone(settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] != spec.Redacted {
			continue
		}
		value, ok := old[name]
		if !ok {
			field := joinPath(at, name)
			return nil, fieldError(spec.CodeInvalid, field,
				fmt.Sprintf("%s is %s, which keeps an existing secret, but none is set", field, spec.Redacted)).
				Suggest("write the value or a reference such as ${file:/path}")
		}
		settings[name] = value
	}
	return settings, nil
}

// keepAllSecrets is like Keep for all settings of p, which replaces old.
func keepAllSecrets(p, old *spec.Pipeline, field naming) error {
	before := map[string]map[string]string{}
	eachSettings(old.Clone(), func(owner, _ string, settings *map[string]string) { before[owner] = *settings })
	var failed error
	eachSettings(p, func(owner, at string, settings *map[string]string) {
		kept, err := keepSecrets(*settings, before[owner], field(at))
		if err != nil && failed == nil {
			failed = err
		}
		*settings = kept
	})
	return failed
}

// eachSettings calls do for all settings of p. owner is the id of their connector or processor, and at is their JSON
// pointer.
func eachSettings(p *spec.Pipeline, do func(owner, at string, settings *map[string]string)) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], "/connectors/"+strconv.Itoa(i)
		do("/connectors/"+c.ID, at+"/settings", &c.Settings)
		eachProcessor("/connectors/"+c.ID, at, c.Processors, do)
	}
	eachProcessor("", "", p.Processors, do)
	do(deadLetterQueuePath, deadLetterQueuePath+"/settings", &p.DeadLetterQueue.Settings)
}

func eachProcessor(owner, at string, all []spec.Processor, do func(owner, at string, settings *map[string]string)) {
	for i := range all {
		do(owner+"/processors/"+all[i].ID, at+"/processors/"+strconv.Itoa(i)+"/settings", &all[i].Settings)
	}
}
