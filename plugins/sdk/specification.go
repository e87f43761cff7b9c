package sdk

// Specification is what a plugin says about itself.
type Specification struct {
	Name        string
	Summary     string
	Description string
	Version     string // semantic, with a leading v
	Author      string

	Source      Parameters // settings of a source; nil when there is none
	Destination Parameters // settings of a destination; nil when there is none
}

// Specification describes the connector. It makes a source and a destination to ask them
// for their parameters.
func (c Connector) Specification() Specification {
	s := Specification{Name: c.Name, Summary: c.Summary, Description: c.Description, Version: c.Version, Author: c.Author}
	if c.NewSource != nil {
		s.Source = c.NewSource().Parameters()
	}
	if c.NewDestination != nil {
		s.Destination = c.NewDestination().Parameters()
	}
	return s
}
