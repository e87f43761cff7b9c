package config

import (
	"slices"
	"strings"
)

// Foreign is a key of Conduit that conduit.yaml may have and that has no effect here.
type Foreign struct {
	Key  string
	Bool bool   // its flag may have no value
	same string // the value, as text, that asks for the behavior of this agent
	Note string // explanation and alternative for the user
}

// ForeignSettings returns the keys that are known and have no effect, sorted.
func ForeignSettings() []Foreign { return slices.Clone(foreign) }

const (
	noteStore   = "state is kept in SQLite, at db.sqlite.path; conduit migrate takes over the state of a Conduit"
	noteInstall = "nothing is installed from elsewhere: put executables into connectors.path"
	noteEngine  = "there is one engine"
	noteProfile = "go tool pprof shows profiles of a running agent: set api.debug"
)

var foreign = []Foreign{
	{"api.allow-live-restart-apply", true, "false",
		"a change of a running pipeline over the API takes the parameter ?live"},
	{"api.grpc.address", false, "", "the API is served over HTTP only, at api.http.address"},
	{"api.http.ui.enabled", true, "true", "the pages are part of the API; api.enabled: false turns off both"},
	{"db.badger.path", false, "", noteStore},
	{"db.postgres.connection-string", false, "", noteStore},
	{"db.postgres.table", false, "", noteStore},
	{"db.sqlite.table", false, "", "the tables of the store have fixed names"},
	{"db.type", false, "sqlite", noteStore},
	{"dev.blockprofile", false, "", noteProfile},
	{"dev.cpuprofile", false, "", noteProfile},
	{"dev.enabled", true, "true", "pipeline files are always watched"},
	{"dev.json", true, "false", "log.format: json makes every line JSON"},
	{"dev.memprofile", false, "", noteProfile},
	{"install.allow-stale-bundle", true, "false", noteInstall},
	{"install.allow-unsigned", true, "false", noteInstall},
	{"install.max-staleness", false, "", noteInstall},
	{"preview.pipeline-arch-v2", true, "false", noteEngine},
	{"preview.pipeline-arch-v2-disable-metrics", true, "false", noteEngine},
}

// foreignGroups are the groups that have only foreign keys.
var foreignGroups = []string{"db.badger", "db.postgres", "dev", "install", "preview", "api.grpc", "api.http.ui"}

// Aliases are flags with the same meaning as the flags of other keys.
var Aliases = map[string]string{"pipelines": "pipelines.path", "dev": "dev.enabled"}

// foreignKey returns the foreign key with this name, or else a foreign key of the same group: a later version of
// Conduit may have more keys in the group.
func foreignKey(key string) (Foreign, bool) {
	if i := slices.IndexFunc(foreign, func(f Foreign) bool { return f.Key == key }); i >= 0 {
		return foreign[i], true
	}
	for _, group := range foreignGroups {
		if key != group && !strings.HasPrefix(key, group+".") {
			continue
		}
		i := slices.IndexFunc(foreign, func(f Foreign) bool { return strings.HasPrefix(f.Key, group+".") })
		return Foreign{Key: key, Note: foreign[i].Note}, true
	}
	return Foreign{}, false
}

// foreignVariable is foreignKey for the name of a variable.
func foreignVariable(name string) (Foreign, bool) {
	if i := slices.IndexFunc(foreign, func(f Foreign) bool { return envName(f.Key) == name }); i >= 0 {
		return foreign[i], true
	}
	return foreignKey(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "CONDUIT_")), "_", "."))
}
