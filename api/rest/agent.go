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
	Address    string    `json:"address" doc:"That the API listens on."`
	Unit       string    `json:"unit,omitempty" doc:"Of systemd, when it runs under one."`
	Goroutines int       `json:"goroutines"`
	Memory     Memory    `json:"memory"`
	Store      Store     `json:"store"`

	DeadLetters *Store `json:"deadLetters,omitempty" doc:"Where refused records are kept; without bytes while there never was one."`

	Settings []Setting `json:"settings" doc:"In effect, each with the place it comes from."`
}

// Memory is the memory use of a process.
type Memory struct {
	Resident int64             `json:"resident" doc:"Bytes, 0 where that is not known."`
	Limit    int64             `json:"limit,omitempty" doc:"Bytes that the process is kept within: memory.limit, or what the control group allows. 0 for no limit."`
	Records  spec.RecordMemory `json:"records"`
}

// Store is where an agent keeps its state.
type Store struct {
	Path       string `json:"path"`
	Bytes      int64  `json:"bytes" doc:"Of the database."`
	WALBytes   int64  `json:"walBytes" doc:"Of its write-ahead log."`
	DiskFree   int64  `json:"diskFree,omitempty" doc:"Bytes free for the agent on the file system."`
	DiskTotal  int64  `json:"diskTotal,omitempty" doc:"Bytes of the file system."`
	FileSystem string `json:"fileSystem,omitempty" doc:"Kind of the file system, where it is known."`
	Problem    string `json:"problem,omitempty" doc:"What is wrong with it, and what to do."`
}

// Setting is a setting of the agent.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin" doc:"default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level."`
}

// FileContent is the content of a pipeline file on the disk of the agent.
type FileContent struct {
	Path    string `json:"path"`
	Content string `json:"content" doc:"Secrets are shown as ***."`
}
