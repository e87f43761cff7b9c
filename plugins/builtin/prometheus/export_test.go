package prometheus

import (
	"context"
	"net"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Excuses sets the number of samples that may still count as repeated.
func Excuses(d *Destination, n int) { d.writer.excuses = n }

// RecordsIn returns the records of the body of a request, the number of rejected elements, and why the first one is.
func RecordsIn(body []byte, v2 bool) (all []record.Record, rejected int, reason, err error) {
	c, _, err := newContent(body, v2, nil)
	if err == nil {
		err = c.readSymbols()
	}
	for err == nil && c.Left() > 0 {
		var some []record.Record
		some, err = c.Next(7)
		all = append(all, some...)
	}
	return all, c.rejected, c.reason, err
}

// Texts of values.
var (
	ValueOf = valueOf
	BitsOf  = bitsOf
)

// ScrapeWith makes an open source connect to targets with dial.
func ScrapeWith(s *Source, dial func(context.Context, string, string) (net.Conn, error)) {
	s.mode.(*scraper).client.Transport.DialContext = dial
}
