package sdk

// Specification describes a plugin.
type Specification struct {
	Name        string
	Summary     string
	Description string
	Version     string // semantic version with a leading v
	Author      string

	Source      Parameters // settings of the source; nil: no source
	Destination Parameters // settings of the destination; nil: no destination
}

// Specification describes the connector. It creates a source and a destination to read their parameters.
func (c Connector) Specification() Specification {
	s := Specification{Name: c.Name, Summary: c.Summary, Description: c.Description, Version: c.Version,
		Author: c.Author}
	if c.NewSource != nil {
		s.Source = c.NewSource().Parameters()
	}
	if c.NewDestination != nil {
		s.Destination = c.NewDestination().Parameters()
	}
	return s
}
