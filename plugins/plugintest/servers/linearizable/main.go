// Command linearizable reads a history of compare-and-swaps from standard input, one operation as JSON per line, and
// fails if no order of the operations explains their results.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is an operation on a key; agent/agenttest/campaign/server has the same type.
type operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Call     int64  `json:"call"`
	Return   int64  `json:"return"`
	Kind     string `json:"kind"`     // applied, conflict, unknown or read
	Expected uint64 `json:"expected"` // of a write: the revision that it replaces
	Stamp    string `json:"stamp"`    // of the value written or read
	Revision uint64 `json:"revision"` // of the write if applied, else the current one; 0: not reported
}

// register is the state of a key.
type register struct {
	stamp    string // "" while the key does not exist
	revision uint64 // 0 when it is not known yet
	after    uint64 // lower bound of an unknown revision, exclusive
}

// at returns the register with the given revision, if that is possible.
func (r register) at(revision uint64) (register, bool) {
	if r.stamp == "" || r.revision != 0 {
		return r, r.revision == revision
	}
	return register{stamp: r.stamp, revision: revision}, revision > r.after
}

// step returns the possible states of a register after an operation.
func step(r register, o operation) []any {
	_, replaces := r.at(o.Expected)
	switch o.Kind {
	case "applied":
		if replaces && o.Revision > o.Expected {
			return []any{register{stamp: o.Stamp, revision: o.Revision}}
		}
	case "unknown":
		if replaces {
			return []any{r, register{stamp: o.Stamp, after: o.Expected}}
		}
		return []any{r}
	case "conflict":
		if now, ok := r.at(o.Revision); o.Revision != 0 && ok && o.Revision != o.Expected {
			return []any{now}
		} else if o.Revision == 0 && (!replaces || r.stamp != "" && r.revision == 0) {
			return []any{r}
		}
	case "read":
		if now, ok := r.at(o.Revision); ok && now.stamp == o.Stamp {
			return []any{now}
		}
	}
	return nil
}

var model = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range history {
			key := o.Input.(operation).Key
			if _, ok := at[key]; !ok {
				at[key] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[key]] = append(parts[at[key]], o)
		}
		return parts
	},
	Init: func() []any { return []any{register{}} },
	Step: func(state, input, _ any) []any { return step(state.(register), input.(operation)) },
}

func main() {
	var history []porcupine.Operation
	unknown := map[string]bool{}
	for d := json.NewDecoder(os.Stdin); ; {
		var o operation
		if err := d.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			log.Fatalf("cannot read the history: %v", err)
		}
		if o.Kind == "unknown" { // it may take effect at any later time, once for all attempts
			if unknown[o.Key+" "+o.Stamp] {
				continue
			}
			unknown[o.Key+" "+o.Stamp] = true
			o.Return = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return})
	}
	result := porcupine.CheckOperationsTimeout(model.ToModel(), history, 2*time.Minute)
	fmt.Printf("%d operations: %s\n", len(history), result)
	if result != porcupine.Ok {
		os.Exit(1)
	}
}
