package plugins_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/progress"
)

func TestSkips(t *testing.T) {
	var s progress.Skips
	denied, damaged := errors.New("denied"), errors.New("damaged")
	news := []bool{s.Add("a", denied), s.Add("a", denied), s.Add("a", damaged), s.Add("b", denied), s.Remove("b"),
		s.Remove("b"), s.Add("b", denied)}
	if got := fmt.Sprint(news); got != "[true false true true true false true]" {
		t.Errorf("got %s", got)
	}
	if list := s.List(); len(list) != 2 || list[0].Of != "b" || list[1].Of != "a" || list[1].Error != "damaged" ||
		list[1].Since.IsZero() {
		t.Errorf("got %v", list)
	}
	for i := range 2000 {
		s.Add(fmt.Sprint(i), denied)
	}
	if list := s.List(); len(list) != 20 || list[0].Of != "1999" || s.Remove("a") || !s.Remove("1000") {
		t.Errorf("got %v", list)
	}
}
