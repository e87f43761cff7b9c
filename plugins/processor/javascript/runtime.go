package javascript

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxCallDepth bounds the nesting of function calls.
const maxCallDepth = 2048

// runtime is a script in its own JavaScript runtime. The global variables of the script live as long as the runtime.
type runtime struct {
	vm      *goja.Runtime
	process goja.Callable
	date    *goja.Object
	call    *call
	args    [1]goja.Value // of process, and of read
	read    goja.Callable // reads the result of process and sets out and err
	out     outcome
	err     error
	broken  bool // a call ended in a panic of the engine
}

// newRuntime runs the program, which must define the function process. The guard interrupts it if it takes too long.
func newRuntime(program *goja.Program, l *scriptLog, g *guard) (*runtime, error) {
	r := &runtime{vm: goja.New()}
	r.vm.SetMaxCallStackSize(maxCallDepth)
	r.vm.SetParserOptions(parser.WithDisableSourceMaps)
	r.date = r.vm.Get("Date").(*goja.Object)
	r.call = &call{vm: r.vm, date: r.date, limit: g.memory}
	n, err := newNatives(r.vm, g)
	if err != nil {
		return nil, err
	}
	if err := r.defineGlobals(l, n); err != nil {
		return nil, err
	}
	g.begin(r.vm)
	_, err = r.vm.RunProgram(program)
	g.end()
	if err != nil {
		return nil, fmt.Errorf("cannot run the script: %w", scriptError(err))
	}
	process, ok := goja.AssertFunction(r.vm.Get("process"))
	if !ok {
		return nil,
			errors.New("the script has no function process: begin with: function process(record) { return record }")
	}
	r.process = process
	r.read, _ = goja.AssertFunction(r.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		r.out, r.err = r.call.outcome(c.Argument(0))
		return goja.Undefined()
	}))
	return r, nil
}

func (r *runtime) defineGlobals(l *scriptLog, n *natives) error {
	r.defineEncoding(n)
	r.defineNumbers(n)
	n.defineOperand()
	for name, value := range map[string]any{
		"Record": func(goja.ConstructorCall) *goja.Object { return r.call.newRecord(&record.Record{}).self },
		"RawData": func(c goja.ConstructorCall) *goja.Object {
			var data []byte
			if len(c.Arguments) > 0 {
				if bytes, ok := n.bytesOf(c.Arguments[0]); ok && !goja.IsUndefined(c.Arguments[0]) {
					data = slices.Clone(bytes)
				} else {
					data = []byte(c.Arguments[0].String())
				}
			}
			return r.call.rawData(&rawBytes{call: r.call.scope(), b: data, owned: true}).(*goja.Object)
		},
		"StructuredData": func(goja.ConstructorCall) *goja.Object { return r.vm.NewObject() },
		"require": func(c goja.FunctionCall) goja.Value {
			panic(r.vm.NewTypeError("cannot require %q: scripts cannot load files or modules", c.Argument(0).String()))
		},
		"eval":    func(goja.FunctionCall) goja.Value { panic(n.noCode()) },
		"logger":  l.logger(n),
		"console": l.console(n),
	} {
		n.keep(r.vm.Set(name, value))
	}
	return n.install(r.call.raw, r.call.exact)
}

// outcome is the result of a script for a record: one record, several, or none.
type outcome struct {
	record   record.Record
	pieces   []record.Record
	filtered bool
}

// run calls process with the record in. The outcome owns the data of the record if it is a single record; otherwise in
// is unchanged.
func (r *runtime) run(in *record.Record) (out outcome, err error) {
	c := r.call
	c.position, c.charged = in.Position, 0
	r.out, r.err = outcome{}, nil
	defer func() {
		if p := recover(); p != nil {
			out, err, r.broken = outcome{}, fmt.Errorf("the JavaScript engine failed: %v", p), true
		}
		if err != nil {
			c.revert()
		}
		clear(c.changed)
		c.changed = c.changed[:0]
		c.ended++
		r.out, r.args[0] = outcome{}, nil
	}()
	arg := c.newRecord(in)
	r.args[0] = arg.self
	v, err := r.process(goja.Undefined(), r.args[:]...)
	if err != nil {
		return out, scriptError(err)
	}
	if v == goja.Value(arg.self) && arg.plain() {
		out.record, err = arg.result(true)
		return out, err
	}
	// Members of the script's objects may be getters, which can throw, or be interrupted.
	r.args[0] = v
	if _, thrown := r.read(goja.Undefined(), r.args[:]...); thrown != nil {
		return outcome{}, scriptError(thrown)
	}
	return r.out, r.err
}

// outcome reads what process returned.
func (c *call) outcome(v goja.Value) (out outcome, err error) {
	if isNullish(v) {
		out.filtered = true
		return out, nil
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return out, fmt.Errorf("process returned %s, want a record, an array of records, or null", v.ExportType())
	}
	switch returned := exported(o).(type) {
	case *recordObject:
		out.record, err = returned.result(true)
		return out, err
	case *goja.Promise:
		return c.settled(returned)
	}
	if o.ClassName() != "Array" {
		return out, fmt.Errorf("process returned an object of class %s that is no record: "+
			"change the record it got, or make one with new Record()", o.ClassName())
	}
	return c.split(o)
}

// settled reads the result of an async function. A script has nothing to wait for, so the promise is settled, unless
// nothing ever settles it.
func (c *call) settled(p *goja.Promise) (outcome, error) {
	switch p.State() {
	case goja.PromiseStateFulfilled:
		return c.outcome(p.Result())
	case goja.PromiseStateRejected:
		return outcome{}, fmt.Errorf("%s", limitText(p.Result().String()))
	}
	return outcome{}, errors.New("process returned a promise that nothing settles: " +
		"scripts have no timers and no network")
}

func (c *call) split(o *goja.Object) (out outcome, err error) {
	n := int(o.Get("length").ToInteger())
	if n > maxPieces {
		return out, fmt.Errorf("process returned %d records for one record; the maximum is %d", n, maxPieces)
	}
	out.filtered = n == 0
	for i := range n {
		piece, ok := exportedValue(o.Get(fmt.Sprint(i))).(*recordObject)
		if !ok {
			return out, fmt.Errorf("process returned an array in which [%d] is no record", i)
		}
		r, err := piece.result(false)
		if err != nil {
			return out, fmt.Errorf("[%d]: %w", i, err)
		}
		out.pieces = append(out.pieces, r)
	}
	return out, nil
}

// maxPieces bounds the number of records that a script may make from one.
const maxPieces = 100_000

func exportedValue(v goja.Value) any {
	if o, ok := v.(*goja.Object); ok {
		return exported(o)
	}
	return nil
}
