package record_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// wireObject is a record whose payload is {"b":true,"a":null}, in this order.
var wireObject = []byte("\x0a\x01p\x2a\x16\x12\x14\x12\x12" + "\x0a\x07\x0a\x01b\x12\x02\x20\x01" +
	"\x0a\x07\x0a\x01a\x12\x02\x08\x00")

func TestObjectsStayEncoded(t *testing.T) {
	r, err := record.ParseWire(wireObject)
	if err != nil {
		t.Fatal(err)
	}
	wire := func(r record.Record) []byte {
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r.Metadata.Set("k", "v")
	clone := r.Clone()
	size := r.Size()
	if b := wire(r); !bytes.Contains(b, wireObject[7:]) {
		t.Errorf("after a change of the metadata it is %x", b)
	}
	m, ok := r.After.Structured()
	if !ok || fmt.Sprint(m) != "map[a:<nil> b:true]" {
		t.Fatalf("it holds %v", m)
	}
	if r.Size() != size {
		t.Errorf("decoded its size is %d, before it was %d", r.Size(), size)
	}
	m["b"] = false
	if again, _ := r.After.Structured(); again["b"] != false {
		t.Error("a change of the object is lost")
	}
	if b := wire(r); bytes.Contains(b, wireObject[7:]) {
		t.Errorf("after a change of the object it is still %x", b)
	}
	if m, _ := clone.After.Structured(); m["b"] != true {
		t.Error("a change of the object changes a clone that was made before")
	}
	later := r.Clone()
	if m["b"] = true; later.Equal(r) || !clone.After.Equal(r.After) {
		t.Errorf("%v, %v and %v", later.Map(), clone.Map(), r.Map())
	}
}

// Errors in an object are reported when its record is decoded, not on first use.
func TestObjectsAreChecked(t *testing.T) {
	bad := bytes.Replace(wireObject, []byte("\x0a\x01b"), []byte("\x0a\x01\xff"), 1)
	if r, err := record.ParseWire(bad); err == nil {
		t.Errorf("got %v", r.Map())
	}
}

// Several destinations may read one record concurrently.
func TestObjectsAreDecodedOnce(t *testing.T) {
	r, err := record.ParseWire(wireObject)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	all := make([]map[string]any, 8)
	for i := range all {
		group.Go(func() {
			_ = r.Clone()
			if _, err := record.AppendWire(nil, &r); err != nil {
				t.Error(err)
			}
			all[i], _ = r.After.Structured()
		})
	}
	group.Wait()
	all[0]["x"] = 1.0
	for i, m := range all {
		if m["x"] != 1.0 {
			t.Errorf("reader %d has another object", i)
		}
	}
}
