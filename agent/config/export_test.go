package config

// Fields returns the settings of c with their fields.
func (c *Config) Fields() []Setting { return c.settings() }

// Value returns the value of the field.
func (s *Setting) Value() any { return s.value() }
