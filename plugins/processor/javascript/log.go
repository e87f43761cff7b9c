package javascript

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dop251/goja"
	"golang.org/x/time/rate"

	"github.com/conduit-agent/conduit/spec/texts"
)

const (
	maxText      = 8 << 10 // maximum bytes in a log line or error text of a script
	linesASecond = 100
)

// scriptLog writes the log output of scripts with a rate limit: a script that logs every record must not flood the log
// of the agent.
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
	"Trace": levelTrace, "Debug": slog.LevelDebug, "Info": slog.LevelInfo, "Warn": slog.LevelWarn,
	"Error": slog.LevelError,
}

// logger returns the global logger: logger.Info().Str("key", "value").Msg("text").
func (l *scriptLog) logger(n *natives) *goja.Object {
	o := n.vm.NewObject()
	for name, level := range loggerLevels {
		_ = o.Set(name, func(goja.FunctionCall) goja.Value { return l.line(n, level) })
	}
	return o
}

// line returns one line of the log under construction. Msg or Msgf writes it.
func (l *scriptLog) line(n *natives, level slog.Level) *goja.Object {
	var fields []any
	o := n.vm.NewObject()
	set := func(name string, f func(goja.FunctionCall) goja.Value) { _ = o.Set(name, n.counted(f, nil)) }
	set("Str", func(c goja.FunctionCall) goja.Value {
		if len(fields) >= 2*maxFields {
			panic(n.vm.NewTypeError("a line of the log has more than %d fields", maxFields))
		}
		fields = append(fields, limitText(c.Argument(0).String()), limitText(c.Argument(1).String()))
		return o
	})
	set("Msg", func(c goja.FunctionCall) goja.Value {
		l.write(level, c.Argument(0).String(), fields)
		return goja.Undefined()
	})
	stringify := n.stringifyFunction()
	set("Msgf", func(c goja.FunctionCall) goja.Value {
		args := make([]any, 0, len(c.Arguments))
		for _, v := range c.Arguments[min(1, len(c.Arguments)):] {
			args = append(args, formatted(v, stringify))
		}
		l.write(level, sprintf(c.Argument(0).String(), args), fields)
		return goja.Undefined()
	})
	return o
}

// maxFields bounds the fields of a log line.
const maxFields = 100

// formatted returns v as an argument of a format. Values other than numbers, texts and booleans become JSON.
func formatted(v goja.Value, stringify goja.Callable) any {
	if o, ok := v.(*goja.Object); ok {
		if t, ok := exported(o).(time.Time); ok {
			return t
		}
		return limitText(consoleText(o, stringify))
	}
	if s, ok := v.(goja.String); ok {
		return limitText(s.String())
	}
	return v.Export()
}

// sprintf is fmt.Sprintf with widths and precisions of at most three digits, because they add padding. An asterisk
// would take the width from an argument, so it is not allowed either.
func sprintf(format string, args []any) string {
	return fmt.Sprintf(wide().ReplaceAllString(limitText(format), "$1"), args...)
}

// wide matches the digits of a number after the third, and an asterisk, in a format.
var wide = texts.Regexp(`([0-9]{3})[0-9]+|\*`)

var consoleLevels = map[string]slog.Level{
	"trace": levelTrace, "debug": slog.LevelDebug, "log": slog.LevelInfo, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError,
}

// console returns the global console, whose functions join their arguments with spaces. Objects are written as JSON.
func (l *scriptLog) console(n *natives) *goja.Object {
	stringify := n.stringifyFunction()
	o := n.vm.NewObject()
	for name, level := range consoleLevels {
		_ = o.Set(name, func(c goja.FunctionCall) goja.Value {
			words := make([]string, 0, min(len(c.Arguments), maxFields))
			for _, v := range c.Arguments[:min(len(c.Arguments), maxFields)] {
				words = append(words, limitText(consoleText(v, stringify)))
			}
			l.write(level, strings.Join(words, " "), nil)
			return goja.Undefined()
		})
	}
	return o
}

func (n *natives) stringifyFunction() goja.Callable {
	f, _ := goja.AssertFunction(n.vm.Get("JSON").(*goja.Object).Get("stringify"))
	return f
}

func consoleText(v goja.Value, stringify goja.Callable) string {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "Object" && o.ClassName() != "Array" {
		return v.String()
	}
	text, err := stringify(goja.Undefined(), v)
	if err != nil {
		panic(err) // like JSON.stringify
	}
	return text.String()
}
