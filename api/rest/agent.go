package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Agent describes an agent: its process, its store, its settings.
type Agent struct {
	Version    string    `json:"version"`
	OS         string    `json:"os"`
	Arch       string    `json:"arch"`
	Host       string    `json:"host" doc:"Name of the machine."`
	PID        int       `json:"pid"`
	StartedAt  time.Time `json:"startedAt"`
	Address    string    `json:"address" doc:"Address that the API listens on."`
	Unit       string    `json:"unit,omitempty" doc:"systemd unit that runs the agent; left out when there is none."`
	Goroutines int       `json:"goroutines"`
	Memory     Memory    `json:"memory"`
	Store      Store     `json:"store"`

	DeadLetters *Store `json:"deadLetters,omitempty" doc:"Store of refused records; its size is 0 until the first record is refused."`

	Settings []Setting `json:"settings" doc:"All settings in effect."`
}

// Memory is the memory use of a process.
type Memory struct {
	Resident int64             `json:"resident" doc:"Resident memory in bytes; 0 if it is unknown."`
	Limit    int64             `json:"limit,omitempty" doc:"Limit of the memory of the process in bytes: memory.limit, or the limit of the control group. Left out when there is none."`
	Records  spec.RecordMemory `json:"records"`
}

// Store is where an agent keeps its state.
type Store struct {
	Path       string `json:"path"`
	Bytes      int64  `json:"bytes" doc:"Size of the database in bytes."`
	WALBytes   int64  `json:"walBytes" doc:"Size of the write-ahead log in bytes."`
	DiskFree   int64  `json:"diskFree,omitempty" doc:"Bytes of the file system that the agent can still use."`
	DiskTotal  int64  `json:"diskTotal,omitempty" doc:"Size of the file system in bytes."`
	FileSystem string `json:"fileSystem,omitempty" doc:"Type of the file system, if it is known."`
	Problem    string `json:"problem,omitempty" doc:"Fault of the store, and its remedy."`
}

// Setting is a setting of the agent.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin" doc:"Source of the value, such as default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level."`
}

// FileContent is the content of a pipeline file on the disk of the agent.
type FileContent struct {
	Path    string `json:"path"`
	Content string `json:"content" doc:"Secrets are shown as ***."`
}
