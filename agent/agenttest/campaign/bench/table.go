package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// column is one of the values that a case returns.
type column struct {
	name   string
	format string // of a value
	total  bool   // summed up over the rounds; otherwise the table has the median and the range
}

// head prints the head of a table.
func head(columns []column) {
	fmt.Print("| case |")
	for _, c := range columns {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Printf("\n|---|%s\n", strings.Repeat("---|", len(columns)))
}

// line prints the results of a case in all rounds.
func line(name string, columns []column, runs [][]float64) {
	fmt.Printf("| %s |", name)
	for i, c := range columns {
		var values []float64
		for _, r := range runs {
			values = append(values, r[i])
		}
		fmt.Printf(" %s |", c.cell(values))
	}
	fmt.Println()
}

// cell returns the median of the values, with their range if there is one, or nothing if a case has no value.
func (c column) cell(values []float64) string {
	if c.total {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return number(c.format, sum)
	}
	if slices.ContainsFunc(values, math.IsNaN) {
		return ""
	}
	slices.Sort(values)
	last := len(values) - 1
	median, low, high := number(c.format, values[last/2]), number(c.format, values[0]), number(c.format, values[last])
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, low, high)
}

// number formats v, with commas between thousands.
func number(format string, v float64) string {
	text := fmt.Sprintf(format, v)
	end := len(text)
	if point := strings.IndexByte(text, '.'); point >= 0 {
		end = point
	}
	for i := end - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// quantile returns the value that a share q of the sorted values does not exceed.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
