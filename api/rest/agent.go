package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Agent describes an agent: its process, its store, its settings.
type Agent struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Name of the machine.
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
	// Address that the API listens on.
	Address string `json:"address"`
	// systemd unit that runs the agent; left out when there is none.
	Unit       string `json:"unit,omitempty"`
	Goroutines int    `json:"goroutines"`
	Memory     Memory `json:"memory"`
	Store      Store  `json:"store"`

	// Store of refused records; its size is 0 until the first record is refused.
	DeadLetters *Store `json:"deadLetters,omitempty"`

	// All settings in effect.
	Settings []Setting `json:"settings"`
}

// Memory is the memory use of a process.
type Memory struct {
	// Resident memory in bytes; 0 if it is unknown.
	Resident int64 `json:"resident"`
	// Limit of the memory of the process in bytes: memory.limit, or the limit of the control group. Left out when there
	// is none.
	Limit   int64             `json:"limit,omitempty"`
	Records spec.RecordMemory `json:"records"`
}

// Store is where an agent keeps its state.
type Store struct {
	Path string `json:"path"`
	// Size of the database in bytes.
	Bytes int64 `json:"bytes"`
	// Size of the write-ahead log in bytes.
	WALBytes int64 `json:"walBytes"`
	// Bytes of the file system that the agent can still use.
	DiskFree int64 `json:"diskFree,omitempty"`
	// Size of the file system in bytes.
	DiskTotal int64 `json:"diskTotal,omitempty"`
	// Type of the file system, if it is known.
	FileSystem string `json:"fileSystem,omitempty"`
	// Fault of the store, and its remedy.
	Problem string `json:"problem,omitempty"`
}

// Setting is a setting of the agent.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source of the value, such as default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level.
	Origin string `json:"origin"`
}

// FileContent is the content of a pipeline file on the disk of the agent.
type FileContent struct {
	Path string `json:"path"`
	// Secrets are shown as ***.
	Content string `json:"content"`
}

// Info identifies the server.
type Info struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Health says whether the agent serves.
type Health struct {
	Status string `json:"status"`
}

// Readiness says whether the agent is ready, and counts its pipelines.
type Readiness struct {
	// ready, starting or unavailable.
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// State of the directory of pipeline files. While the directory cannot be used, pipelines run as last declared.
	Directory *spec.Directory `json:"directory,omitempty"`
	Pipelines *ReadyPipelines `json:"pipelines,omitempty"`
	// Use of memory, while sources wait for memory.
	Memory *spec.RecordMemory `json:"memory,omitempty"`
}

// ReadyPipelines counts pipelines.
type ReadyPipelines struct {
	Total    int `json:"total"`
	Running  int `json:"running"`
	Degraded int `json:"degraded"`
	// Pipelines that should run but deliver nothing. They do not affect the readiness of the agent.
	NotDelivering     int                `json:"notDelivering,omitempty"`
	DegradedPipelines []DegradedPipeline `json:"degradedPipelines,omitempty"`
}

// DegradedPipeline is a pipeline that failed for good.
type DegradedPipeline struct {
	ID     string             `json:"id"`
	Status PipelineStatusCode `json:"status"`
	Error  string             `json:"error"`
}
