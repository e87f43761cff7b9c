package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in aligned columns. The first row has their names.
type Table struct {
	rows  [][]Cell
	notes map[int]Cell // by the number of rows before them
}

// Cell is one text of a table; color is for terminals.
type Cell struct{ Text, Color string }

// Colored is a cell with colored text.
func Colored(text, color string) Cell { return Cell{text, color} }

// Add appends a row of cells: strings, or cells with a colour.
func (t *Table) Add(cells ...any) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case Cell:
			row[i] = Cell{OneLine(c.Text), c.Color}
		default:
			row[i] = Cell{Text: OneLine(fmt.Sprint(c))}
		}
	}
	t.rows = append(t.rows, row)
}

// Note adds an indented line below the last row, outside of the columns.
func (t *Table) Note(text, color string) {
	if t.notes == nil {
		t.notes = map[int]Cell{}
	}
	t.notes[len(t.rows)] = Cell{OneLine(text), color}
}

// Write writes t with two spaces between columns, none at the end of a line.
func (t *Table) Write(w io.Writer, paint func(text, color string) string) error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	var b strings.Builder
	for n, row := range t.rows {
		pad := 0
		for i, c := range row {
			if c.Text != "" {
				b.WriteString(strings.Repeat(" ", pad) + paint(c.Text, c.Color))
				pad = 0
			}
			pad += widths[i] - utf8.RuneCountInString(c.Text) + 2
		}
		b.WriteByte('\n')
		if note, ok := t.notes[n+1]; ok {
			b.WriteString("    " + paint(note.Text, note.Color) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
