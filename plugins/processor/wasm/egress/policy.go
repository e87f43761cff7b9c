// Package egress sends the HTTP requests of processors, only to destinations that they have declared and the agent
// permits.
package egress

import "time"

// Policy limits the access of processors to HTTP. The zero value permits none.
type Policy struct {
	Enabled          bool
	Allow            []string      // destinations that processors may request; none: any
	SecretRefs       []string      // names of secrets that processors may request; none: any
	Timeout          time.Duration // maximum time limit of a processor; 0: no bound
	MaxResponseBytes int64         // maximum response size of a processor; 0: no bound
}
