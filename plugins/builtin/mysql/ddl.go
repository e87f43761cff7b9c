package mysql

import "strings"

// ddlTable is a table name in a statement. Without a schema, the table is in the default database of the session.
type ddlTable struct{ Schema, Name string }

// Change is the effect of a statement on the rows of tables.
type Change struct {
	What   string     // as a clause, for example "was truncated"
	Tables []ddlTable // an empty Name with a Schema means all tables in the database
}

// Changes returns the changes of rows that a statement makes but that the log does not contain. It returns nil for any
// other statement.
func Changes(sql string) []Change {
	s := &scanner{words: split(sql)}
	switch {
	case s.take("TRUNCATE"):
		s.take("TABLE")
		return change("was truncated", s.table())
	case s.take("DROP", "TABLE"), s.take("DROP", "TABLES"):
		s.take("IF", "EXISTS")
		return change("was dropped", s.list()...)
	case s.take("DROP", "DATABASE"), s.take("DROP", "SCHEMA"):
		s.take("IF", "EXISTS")
		return []Change{{"was dropped", []ddlTable{{Schema: s.next().text}}}}
	case s.take("CREATE", "OR", "REPLACE", "TABLE"):
		return change("was replaced", s.table())
	case s.take("RENAME", "TABLE"), s.take("RENAME", "TABLES"):
		s.take("IF", "EXISTS")
		return s.renamed()
	case s.take("ALTER"):
		return s.altered()
	}
	return nil
}

func change(what string, tables ...ddlTable) []Change { return []Change{{what, tables}} }

// renamed returns the changes made by the pairs after RENAME TABLE.
func (s *scanner) renamed() (all []Change) {
	for {
		from := s.table()
		for !s.done() && !s.take("TO") { // skips WAIT 5, NOWAIT
			s.next()
		}
		all = append(all, Change{"was renamed", []ddlTable{from}}, Change{"was created by a rename",
			[]ddlTable{s.table()}})
		if !s.take(",") {
			return all
		}
	}
}

// alterations are the clauses of ALTER TABLE that change rows. The name of a second table may follow the word in other.
var alterations = []struct {
	words []string
	what  string
	other string
}{
	{[]string{"TRUNCATE", "PARTITION"}, "had a partition truncated", ""},
	{[]string{"DROP", "PARTITION"}, "had a partition dropped", ""},
	{[]string{"EXCHANGE", "PARTITION"}, "had a partition exchanged", "TABLE"},
	{[]string{"CONVERT", "PARTITION"}, "had a partition detached as a table", "TABLE"},
	{[]string{"CONVERT", "TABLE"}, "had a table attached as a partition", ""},
	{[]string{"DISCARD", "TABLESPACE"}, "had its rows discarded", ""},
	{[]string{"IMPORT", "TABLESPACE"}, "had its rows imported", ""},
	{[]string{"DISCARD", "PARTITION"}, "had rows of a partition discarded", ""},
	{[]string{"IMPORT", "PARTITION"}, "had rows of a partition imported", ""},
}

// altered returns the changes made by ALTER TABLE.
func (s *scanner) altered() (all []Change) {
	for s.take("ONLINE") || s.take("IGNORE") {
	}
	if !s.take("TABLE") {
		return nil
	}
	s.take("IF", "EXISTS")
	table := s.table()
	for !s.done() {
		if s.take("RENAME", "TO") || s.take("RENAME", "AS") || s.takeRename() {
			return append(all, Change{"was renamed", []ddlTable{table}}, Change{"was created by a rename",
				[]ddlTable{s.table()}})
		}
		matched := false
		for _, a := range alterations {
			if !s.take(a.words...) {
				continue
			}
			matched = true
			all = append(all, Change{a.what, []ddlTable{table}})
			for a.other != "" && !s.done() {
				if s.take(a.other) {
					all[len(all)-1].Tables = append(all[len(all)-1].Tables, s.table())
					break
				}
				s.next()
			}
		}
		if !matched {
			s.next()
		}
	}
	return all
}

// ForeignKey is a foreign key of a table.
type ForeignKey struct {
	Name               string
	Parent             ddlTable
	OnDelete, OnUpdate string // rules, in capitals; "" if not declared
}

// ForeignKeys returns the foreign keys in a CREATE TABLE statement in the form that servers print.
func ForeignKeys(sql string) (all []ForeignKey) {
	s := &scanner{words: split(sql)}
	var name string
	for !s.done() {
		switch {
		case s.take("CONSTRAINT"):
			name = s.next().text
		case s.take("REFERENCES"):
			key := ForeignKey{Name: name, Parent: s.table()}
			for !s.done() && !s.take(")") {
				s.next()
			}
			for s.take("ON") {
				event, rule := s.next(), s.next()
				text := strings.ToUpper(rule.text)
				if rule.is("SET") || rule.is("NO") {
					text += " " + strings.ToUpper(s.next().text)
				}
				if event.is("DELETE") {
					key.OnDelete = text
				} else {
					key.OnUpdate = text
				}
			}
			all = append(all, key)
		default:
			s.next()
		}
	}
	return all
}

// takeRename consumes RENAME if the new name of the table follows.
func (s *scanner) takeRename() bool {
	if len(s.words) < 2 || !s.words[0].is("RENAME") {
		return false
	}
	for _, other := range []string{"COLUMN", "INDEX", "KEY"} {
		if s.words[1].is(other) {
			return false
		}
	}
	return s.take("RENAME")
}

// word is a token of a statement: a name, a keyword, a character, or the empty text of a string.
type word struct {
	text   string
	quoted bool
}

func (w word) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

// scanner reads the words of a statement.
type scanner struct{ words []word }

func (s *scanner) done() bool { return len(s.words) == 0 }

func (s *scanner) next() (w word) {
	if !s.done() {
		w, s.words = s.words[0], s.words[1:]
	}
	return w
}

// take consumes the given words if they come next.
func (s *scanner) take(words ...string) bool {
	for i, w := range words {
		if i >= len(s.words) || !s.words[i].is(w) {
			return false
		}
	}
	s.words = s.words[len(words):]
	return true
}

// table reads name or schema.name.
func (s *scanner) table() ddlTable {
	name := s.next().text
	if s.take(".") {
		return ddlTable{Schema: name, Name: s.next().text}
	}
	return ddlTable{Name: name}
}

// list reads tables separated by commas.
func (s *scanner) list() []ddlTable {
	all := []ddlTable{s.table()}
	for s.take(",") {
		all = append(all, s.table())
	}
	return all
}

// split returns the words of a statement, without comments. It keeps the content of /*! and */, which only some
// versions of the server run.
func split(sql string) (words []word) {
	for sql != "" {
		c := sql[0]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			sql = sql[1:]
		case strings.HasPrefix(sql, "/*!"), strings.HasPrefix(sql, "/*M!"):
			sql = strings.TrimLeft(sql[strings.IndexByte(sql, '!')+1:], "0123456789")
		case strings.HasPrefix(sql, "*/"):
			sql = sql[2:]
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		case c == '#', strings.HasPrefix(sql, "-- "), strings.HasPrefix(sql, "--\n"):
			_, sql, _ = strings.Cut(sql, "\n")
		case c == '`' || c == '"' || c == '\'':
			var w word
			w, sql = quoted(sql)
			words = append(words, w)
		case isName(c):
			n := 1
			for n < len(sql) && isName(sql[n]) {
				n++
			}
			words, sql = append(words, word{text: sql[:n]}), sql[n:]
		default:
			words, sql = append(words, word{text: sql[:1]}), sql[1:]
		}
	}
	return words
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// quoted reads a quoted name or string at the front of sql, and returns the rest.
func quoted(sql string) (w word, rest string) {
	var text strings.Builder
	for i := 1; i < len(sql); i++ {
		switch {
		case sql[i] == '\\' && sql[0] != '`' && i+1 < len(sql):
			i++
			text.WriteByte(sql[i])
		case sql[i] != sql[0]:
			text.WriteByte(sql[i])
		case i+1 < len(sql) && sql[i+1] == sql[0]:
			i++
			text.WriteByte(sql[i])
		default:
			return word{text.String(), true}, sql[i+1:]
		}
	}
	return word{text.String(), true}, ""
}
