package redis

import "time"

// PingAfter has an opened source of channels ping the server after a silence of d.
func (s *Source) PingAfter(d time.Duration) { s.reader.(*channels).silence = d }
