package trend

import "fmt"

// Copy makes n pipelines with the values of the pipeline id.
func (s *Store) Copy(id string, n int) {
	for i := range n {
		p := *s.pipelines[id]
		p.ID = fmt.Sprint(id, i)
		s.pipelines[p.ID] = &p
	}
}

// Save writes the file now.
func (s *Store) Save() error {
	s.changed = true
	return s.save(true)
}
