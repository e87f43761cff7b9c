//go:build !minimal

package javascript

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dop251/goja"
	"golang.org/x/time/rate"
)

const (
	maxText      = 8 << 10 // bytes of one log line or error text of a script
	linesASecond = 100
)

// scriptLog writes what scripts log, bounded: a script that logs every record must not
// drown the agent's log.
type scriptLog struct {
	log     *slog.Logger
	limiter *rate.Limiter
	dropped int
}

func newScriptLog(log *slog.Logger) *scriptLog {
	return &scriptLog{log: log, limiter: rate.NewLimiter(linesASecond, linesASecond)}
}

func limitText(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

func (l *scriptLog) write(level slog.Level, text string, fields []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	if !l.limiter.Allow() {
		l.dropped++
		return
	}
	if l.dropped > 0 {
		l.log.Warn("lines of the script were not logged: it logs too much", "lines", l.dropped)
		l.dropped = 0
	}
	l.log.Log(context.Background(), level, limitText(text), fields...)
}

// levelTrace is below Debug.
const levelTrace = slog.LevelDebug - 4

var loggerLevels = map[string]slog.Level{
	"Trace": levelTrace, "Debug": slog.LevelDebug, "Info": slog.LevelInfo, "Warn": slog.LevelWarn, "Error": slog.LevelError,
}

// logger returns the global logger: logger.Info().Str("key", "value").Msg("text").
func (l *scriptLog) logger(vm *goja.Runtime) *goja.Object {
	o := vm.NewObject()
	for name, level := range loggerLevels {
		_ = o.Set(name, func(goja.FunctionCall) goja.Value { return l.line(vm, level) })
	}
	return o
}

// line returns one line of the log to be, which Msg or Msgf writes.
func (l *scriptLog) line(vm *goja.Runtime, level slog.Level) *goja.Object {
	var fields []any
	o := vm.NewObject()
	_ = o.Set("Str", func(c goja.FunctionCall) goja.Value {
		fields = append(fields, c.Argument(0).String(), limitText(c.Argument(1).String()))
		return o
	})
	_ = o.Set("Msg", func(c goja.FunctionCall) goja.Value {
		l.write(level, c.Argument(0).String(), fields)
		return goja.Undefined()
	})
	_ = o.Set("Msgf", func(c goja.FunctionCall) goja.Value {
		args := make([]any, 0, len(c.Arguments))
		for _, v := range c.Arguments[min(1, len(c.Arguments)):] {
			args = append(args, v.Export())
		}
		l.write(level, fmt.Sprintf(c.Argument(0).String(), args...), fields)
		return goja.Undefined()
	})
	return o
}

var consoleLevels = map[string]slog.Level{
	"trace": levelTrace, "debug": slog.LevelDebug, "log": slog.LevelInfo, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// console returns the global console, whose functions join their arguments with spaces.
// Objects are written as JSON.
func (l *scriptLog) console(vm *goja.Runtime) *goja.Object {
	stringify, _ := goja.AssertFunction(vm.Get("JSON").(*goja.Object).Get("stringify"))
	o := vm.NewObject()
	for name, level := range consoleLevels {
		_ = o.Set(name, func(c goja.FunctionCall) goja.Value {
			words := make([]string, len(c.Arguments))
			for i, v := range c.Arguments {
				words[i] = consoleText(v, stringify)
			}
			l.write(level, strings.Join(words, " "), nil)
			return goja.Undefined()
		})
	}
	return o
}

func consoleText(v goja.Value, stringify goja.Callable) string {
	if o, ok := v.(*goja.Object); ok && (o.ClassName() == "Object" || o.ClassName() == "Array") {
		if text, err := stringify(goja.Undefined(), v); err == nil {
			return text.String()
		}
	}
	return v.String()
}
