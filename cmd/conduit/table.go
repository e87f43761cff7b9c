package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The colours of words; the log has its own.
const (
	colorGreen  = "\x1b[32m"
	colorYellow = "\x1b[33m"
)

// paint colours text for terminals.
func (p *program) paint(text, color string) string {
	if color == "" || !p.color() {
		return text
	}
	return color + text + colorReset
}

// table is text in aligned columns. The first row has their names.
type table struct{ rows [][]cell }

// cell is one text of a table; color is for terminals.
type cell struct{ text, color string }

// add appends a row of cells: strings, or cells with a colour.
func (t *table) add(cells ...any) {
	row := make([]cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case cell:
			row[i] = cell{oneLine(c.text), c.color}
		default:
			row[i] = cell{text: oneLine(fmt.Sprint(c))}
		}
	}
	t.rows = append(t.rows, row)
}

// write writes t with two spaces between columns, none at the end of a line.
func (t *table) write(w io.Writer, paint func(text, color string) string) error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		pad := 0
		for i, c := range row {
			if c.text != "" {
				b.WriteString(strings.Repeat(" ", pad) + paint(c.text, c.color))
				pad = 0
			}
			pad += widths[i] - utf8.RuneCountInString(c.text) + 2
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// dash stands for what there is not.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
