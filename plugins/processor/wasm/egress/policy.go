// Package egress sends the HTTP requests of processors, to what they have declared and the agent
// permits, and nothing else.
package egress

import "time"

// Policy says what processors may reach over HTTP at most. The zero value lets none
// reach anything.
type Policy struct {
	Enabled          bool
	Allow            []string      // destinations processors may ask for; none: any
	SecretRefs       []string      // names of secrets processors may ask for; none: any
	Timeout          time.Duration // the longest time limit a processor may have; 0: no bound
	MaxResponseBytes int64         // the greatest answer a processor may have; 0: no bound
}
