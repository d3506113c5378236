package batch

import (
	"fmt"
	"net/url"
)

// row is a task whose key is not settled: reports hold keys encoded as the job's
// manifest had them or as they are, and do not say which.
type row struct {
	plain, decoded string // the key by either reading; "" where that is not wanted
	task           Task
}

// add keeps a row that is wanted by at least one reading.
func (r *reader) add(text string, t Task) {
	one := row{task: t}
	if r.wanted(text) {
		one.plain = text
	}
	if decoded, err := url.QueryUnescape(text); err == nil && r.wanted(decoded) {
		one.decoded = decoded
	}
	if one.plain == "" && one.decoded == "" {
		r.others++
		return
	}
	r.rows = append(r.rows, one)
}

// settle chooses one reading of the keys for the whole report: that of the rows
// that leave no choice. A checksum under another object's name would be worse
// than none, so that a report which leaves it open is refused.
func (r *reader) settle() ([]Task, error) {
	var plain, encoded, open string // a row for which only this reading does, or both do and differ
	for _, one := range r.rows {
		switch {
		case one.decoded == "":
			plain = one.plain
		case one.plain == "":
			encoded = one.decoded
		case one.plain != one.decoded:
			open = one.plain
		}
	}
	switch {
	case plain != "" && encoded != "":
		return nil, fmt.Errorf("the completion report holds keys that are encoded (%s) and keys that are not (%s): which object a row is about cannot be told", encoded, plain)
	case open != "" && plain == "" && encoded == "":
		return nil, fmt.Errorf("whether the completion report's key %q is encoded cannot be told, and objects of both names are wanted", open)
	}
	tasks := make([]Task, 0, len(r.rows))
	for _, one := range r.rows {
		one.task.Key = one.decoded
		if encoded == "" && plain != "" {
			one.task.Key = one.plain
		}
		tasks = append(tasks, one.task)
	}
	return tasks, nil
}
