package processor_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
)

// The elements equal the result of Parse. A text that Parse refuses is refused before the first element.
func TestElementsAreThoseOfParse(t *testing.T) {
	for _, text := range append(jsonvalueTexts, `[{"a":[1,{"b":"\u00e4\n"}]}, 2 ,"x",[],null,-0]`, ` [ ] `,
		`[{}`, `["\u12"]`,
		`[1]]`, "[\"\\", strings.Repeat("[", 999)+strings.Repeat("]", 999)) {
		value, err := jsonvalue.Parse([]byte(text))
		e, elementsErr := jsonvalue.ParseElements([]byte(text), 1<<20, nil)
		if (err == nil) != (elementsErr == nil) {
			t.Errorf("%q: %v, Parse: %v", text, elementsErr, err)
		}
		if err != nil || elementsErr != nil {
			continue
		}
		want, ok := value.([]any)
		if !ok {
			want = []any{value}
		}
		got := []any{}
		for e.Left > 0 {
			v, err := e.Next()
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			got = append(got, v)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, want %#v", text, got, want)
		}
	}
}

// Values that take much more memory than their text are refused before they are allocated; others are accepted.
func TestMemoryOfValues(t *testing.T) {
	const limit = 1 << 20
	for name, test := range map[string]struct {
		text    string
		refused bool
	}{
		"empty objects":   {"[" + strings.Repeat("{},", 100_000) + "1]", true},
		"small objects":   {"[" + strings.Repeat(`{"a":1},`, 10_000) + "1]", true},
		"empty lists":     {"[" + strings.Repeat("[],", 100_000) + "1]", true},
		"numbers":         {"[" + strings.Repeat("1,", 100_000) + "1]", true},
		"nulls":           {"[" + strings.Repeat("null,", 100_000) + "1]", true},
		"a wide object":   {`{"a":[` + strings.Repeat(`"",`, 100_000) + "1]}", true},
		"a long text":     {`["` + strings.Repeat("x", 900_000) + `"]`, false},
		"a few objects":   {"[" + strings.Repeat(`{"id":1,"name":"x"},`, 1000) + "1]", false},
		"several numbers": {"[" + strings.Repeat("1,", 10_000) + "1]", false},
	} {
		var err error
		allocs := testing.AllocsPerRun(1, func() { _, err = jsonvalue.ParseWithin([]byte(test.text), limit) })
		if errors.Is(err, jsonvalue.ErrMemory) != test.refused || allocs > limit/8 {
			t.Errorf("%s: %v, after %.0f allocations", name, err, allocs)
		}
		if _, err := jsonvalue.ParseElements([]byte("["+test.text+"]"), limit, nil); errors.Is(err,
			jsonvalue.ErrMemory) != test.refused {
			t.Errorf("%s as an element: %v", name, err)
		}
	}
}

// Elements that take too much memory are omitted from an array, at any position.
func TestLargeElements(t *testing.T) {
	large := "[" + strings.Repeat("[],", 5000) + "0]"
	for text, want := range map[string]string{
		large + ", 1, 2": "1 2", "1, " + large + ",2": "1 2", "1, 2 , " + large + " ": "1 2",
		large + "," + large + ", 1 ," + large + "," + large: "1", large: "",
	} {
		n := 0
		e, err := jsonvalue.ParseElements([]byte("["+text+"]"), 10_000, func(_ int, err error) {
			if n++; !errors.Is(err, jsonvalue.ErrMemory) {
				t.Errorf("left out because of %v", err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e.Left > 0 {
			v, err := e.Next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(v))
		}
		if strings.Join(got, " ") != want || n != strings.Count(text, large) {
			t.Errorf("got %v, left out %d, want %s", got, n, want)
		}
		if _, err := jsonvalue.ParseElements([]byte("["+text+"]"), 10_000, nil); !errors.Is(err, jsonvalue.ErrMemory) {
			t.Errorf("got %v", err)
		}
	}
}
