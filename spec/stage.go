package spec

import "strings"

// StageKind is the kind of a stage of a pipeline.
type StageKind string

// The kinds.
const (
	StageSource      StageKind = "source"
	StageProcessor   StageKind = "processor"
	StageDestination StageKind = "destination"
	StageQueue       StageKind = "dead-letter-queue"
)

// Enum lists the kinds.
func (StageKind) Enum() []string {
	return []string{string(StageSource), string(StageProcessor), string(StageDestination), string(StageQueue)}
}

// stageWords are the words that reasons begin with.
var stageWords = map[StageKind]string{StageSource: "Source", StageProcessor: "Processor",
	StageDestination: "Destination", StageQueue: "DeadLetterQueue"}

// Reason returns the reason of a stall that blames a stage of kind k in one of the states such as StallStuck:
// SourceStuck.
func (k StageKind) Reason(state string) string { return stageWords[k] + state }

// StageKind returns the kind of the stage of p with this qualified id.
func (p *Pipeline) StageKind(id string) StageKind {
	part := strings.TrimPrefix(id, p.ID+":")
	if part == QueueID {
		return StageQueue
	}
	for i := range p.Connectors {
		switch c := &p.Connectors[i]; {
		case c.ID != part:
		case c.Type == TypeSource:
			return StageSource
		default:
			return StageDestination
		}
	}
	return StageProcessor
}
