package template

import (
	"errors"
	"fmt"
	"reflect"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// machine executes one template, one record at a time.
type machine struct {
	template  *template.Template
	out       []byte
	limit     int            // maximum length of out
	exact     bool           // printing nil is an error
	path      *pathOptions   // nil: the template is no path
	record    *record.Record // of the execution
	steps     uint
	timeLimit *TimeLimit
	deadline  time.Time
	late      error // error of an execution after deadline
}

func newMachine(parsed *template.Template, used template.FuncMap, exact bool, path *pathOptions) *machine {
	m := &machine{exact: exact, path: path}
	t, err := parsed.Clone()
	if err != nil {
		panic(err) // only a template of html/template can fail
	}
	bounded := template.FuncMap{stepName: m.step, textName: m.text}
	for name, f := range used {
		if path != nil && name == strftimeName {
			f = m.strftime
		}
		bounded[name] = m.bounded(name, f)
	}
	m.template = t.Funcs(bounded)
	return m
}

func (m *machine) run(b *TimeLimit, dst []byte, r *record.Record) ([]byte, error) {
	start := time.Now()
	m.out, m.limit, m.steps, m.timeLimit = dst, len(dst)+maxOutput, 0, b
	m.deadline, m.late = b.until(start)
	err := m.stopped(start)
	if err == nil {
		m.record = r
		v := viewOf(r)
		if err = m.template.Execute(m, v); err != nil {
			err = executionFault(m.template, err, v)
		}
	}
	b.spend(start)
	out := m.out
	m.out, m.timeLimit, m.record = nil, nil, nil
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Write takes the output of the template. Each text and each printed value arrives in a separate call.
func (m *machine) Write(p []byte) (int, error) {
	if len(m.out)+len(p) > m.limit {
		return 0, errOutput
	}
	m.out = append(m.out, p...)
	return len(p), nil
}

var (
	errOutput = fmt.Errorf("its output exceeds %d bytes", maxOutput)
	errNodes  = fmt.Errorf("it makes a value of more than %d values, or nested more than %d deep", maxNodes, maxDepth)
	errTime   = fmt.Errorf("it took longer than %s", maxTime)
	// The records after the slow ones are refused, too, because they may be just as slow.
	errBatchTime = fmt.Errorf("it took longer than %s for the records of one batch together", maxBatchTime)
	errNil       = errors.New("it prints a value that is null or missing")
	errCycle     = errors.New("a value cannot contain itself")
)

// stepName is the function that is called in every iteration and in every template that a template calls.
const stepName = "conduit_step"

func (m *machine) step() (string, error) {
	if m.steps++; m.steps%64 == 0 {
		return "", m.stopped(time.Now())
	}
	return "", nil
}

// stopped returns the reason why the execution must end, or nil if it may continue.
func (m *machine) stopped(now time.Time) error {
	if !now.Before(m.deadline) {
		return m.late
	}
	return m.timeLimit.ended()
}

// guardLoops inserts a call of step at the beginning of every range body of t and of every template.
func guardLoops(t *template.Template) {
	trees, err := parse.Parse("", "{{"+stepName+"}}", "", "", map[string]any{stepName: (*machine).step})
	if err != nil {
		panic(err)
	}
	step := trees[""].Root.Nodes[0]
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		eachNode(each.Root, func(n parse.Node) {
			if r, ok := n.(*parse.RangeNode); ok {
				r.List.Nodes = append([]parse.Node{step.Copy()}, r.List.Nodes...)
			}
		})
		each.Root.Nodes = append([]parse.Node{step.Copy()}, each.Root.Nodes...)
	}
}

// bounded returns f with checks of the arguments and results. A panic becomes the error of the template.
func (m *machine) bounded(name string, f any) any {
	fn := reflect.ValueOf(f)
	call := fn.Call
	if fn.Type().IsVariadic() {
		call = fn.CallSlice
	}
	grows, whole := growth[name], integers[name]
	return reflect.MakeFunc(fn.Type(), func(args []reflect.Value) []reflect.Value {
		if _, err := m.step(); err != nil {
			panic(err)
		}
		if err := weigh(args); err != nil {
			panic(err)
		}
		if mutators[name] {
			if err := rejectCycle(args); err != nil {
				panic(err)
			}
		}
		if whole {
			if err := truncateNumbers(args); err != nil {
				panic(err)
			}
		}
		if grows != nil && grows(args) > maxOutput {
			panic(errOutput)
		}
		results := call(args)
		if err := weigh(results); err != nil {
			panic(err)
		}
		return results
	}).Interface()
}
