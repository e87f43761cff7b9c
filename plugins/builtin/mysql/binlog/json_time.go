package binlog

import "fmt"

// packedDate returns the text of a DATE or DATETIME in JSON: 24 bits are microseconds, 17 the time of day, the rest the
// day.
func packedDate(typ byte, v uint64) string {
	micros, second, day := v&(1<<24-1), v>>24&(1<<17-1), v>>41
	text := fmt.Sprintf("%04d-%02d-%02d", day>>5/13, day>>5%13, day&31)
	if typ == TypeDate {
		return text
	}
	return text + fmt.Sprintf(" %02d:%02d:%02d.%06d", second>>12, second>>6&63, second&63, micros)
}

func packedTime(v int64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	whole := v >> 24
	return fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, whole>>12&0x3ff, whole>>6&63, whole&63, v&(1<<24-1))
}
