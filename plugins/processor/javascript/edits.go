package javascript

import "github.com/dop251/goja"

// edits are the changes of a script to an object, by key. Scripts change few members of most records, and for these a
// list is faster than a map.
type edits struct {
	list  []edit
	index map[string]int // places in list; nil while the list is short
}

// edit is a changed member. A nil value means that the member was deleted.
type edit struct {
	key   string
	value goja.Value
}

// maxUnindexed is the length up to which a list is searched.
const maxUnindexed = 8

// find returns the place of the key in the list, -1 for none.
func (e *edits) find(key string) int {
	if e.index != nil {
		if i, ok := e.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range e.list {
		if e.list[i].key == key {
			return i
		}
	}
	return -1
}

// get returns the value of a changed member, and whether the member was changed.
func (e *edits) get(key string) (goja.Value, bool) {
	i := e.find(key)
	if i < 0 {
		return nil, false
	}
	return e.list[i].value, true
}

// set changes a member; nil deletes it.
func (e *edits) set(key string, v goja.Value) {
	if i := e.find(key); i >= 0 {
		e.list[i].value = v
		return
	}
	e.list = append(e.list, edit{key, v})
	switch {
	case e.index != nil:
		e.index[key] = len(e.list) - 1
	case len(e.list) > maxUnindexed:
		e.index = make(map[string]int, 2*len(e.list))
		for i := range e.list {
			e.index[e.list[i].key] = i
		}
	}
}

// forget makes a member unchanged.
func (e *edits) forget(key string) {
	i := e.find(key)
	if i < 0 {
		return
	}
	last := len(e.list) - 1
	if e.index != nil {
		delete(e.index, key)
		if i != last {
			e.index[e.list[last].key] = i
		}
	}
	e.list[i] = e.list[last]
	e.list[last] = edit{}
	e.list = e.list[:last]
}
