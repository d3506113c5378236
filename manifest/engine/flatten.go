package engine

import (
	"fmt"
	"strings"
)

// token is one argument with the place that it came from.
type token struct {
	text string
	path string
	line int
	env  string // the variable that it was taken from, if any
	key  string // the YAML key, "" on the command line
	null bool   // made from a null in YAML
}

// Flatten turns an engine configuration file into the arguments that
// `vllm serve` of Version makes of it. When the file would end the engine, the arguments
// are nil and the last problem says why.
//
// Secrets are not masked here: the arguments are what the engine gets.
func Flatten(yaml []byte) ([]string, []Problem) {
	tokens, problems, f := catalogueOf(VLLM, Version).flatten(yaml, "", nil)
	if f != nil {
		return nil, append(problems, f.problem())
	}
	return texts(tokens), problems
}

func texts(tokens []token) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		out[i] = t.text
	}
	return out
}

// flatten does it for any entry point: negated says whether "--no-KEY" is an
// option, by its exact spelling. Under `vllm serve` the parser that reads the
// file is the outer one, which has no such option: pass nil.
func (c *table) flatten(data []byte, path string, negated func(flag string) bool) ([]token, []Problem, *failure) {
	v, problems, f := load(data, path)
	if f != nil {
		return nil, problems, f
	}
	config, ok := v.(*dict)
	if !ok {
		return nil, problems, notMapping(v, path)
	}
	tokens := []token{}
	for _, it := range config.items {
		more, note, f := c.flattenItem(it, path, negated)
		if f != nil {
			f.path = path
			if f.line == 0 {
				f.line = it.line
			}
			return nil, problems, f
		}
		tokens = append(tokens, more...)
		if note != "" {
			problems = append(problems, Problem{Path: path, Line: it.line, Kind: KindFalseDropped, What: note})
		}
	}
	return tokens, problems, nil
}

func notMapping(v any, path string) *failure {
	f := &failure{exit: 1, errorType: "AttributeError", kind: KindNotMapping, path: path, line: 1,
		text: fmt.Sprintf("'%s' object has no attribute 'items'", className(v)),
		what: fmt.Sprintf("the file holds a %s; it must be a mapping of option names to values", className(v))}
	if v == nil {
		f.what = "the file is empty; the engine needs at least {}"
	}
	return f
}

// flattenItem makes arguments of one key. The note is set when a false is
// dropped and that matters.
func (c *table) flattenItem(it item, path string, negated func(string) bool) ([]token, string, *failure) {
	if v, ok := it.value.(bool); ok && !v {
		return c.flattenFalse(it, path, negated)
	}
	if list, ok := it.value.([]any); ok && len(list) == 0 {
		return nil, "", nil
	}
	key, ok := it.key.(string)
	if !ok {
		return nil, "", badKey(it)
	}
	if left := maxValues; !within(it.value, &left) {
		return nil, "", &failure{kind: KindNotJudged, what: fmt.Sprintf("aliases make the value of %q far larger than it looks", key)}
	}
	flag := token{text: "--" + key, path: path, line: it.line, key: key}
	out := []token{flag}
	switch v := it.value.(type) {
	case bool:
	case []any:
		for _, e := range v {
			out = append(out, flag.with(text(e), false))
		}
	case *dict:
		if !c.does("yaml_dict", "json") {
			out = append(out, flag.with(text(v), false)) // as Python prints it, which is no JSON
			break
		}
		json, f := dumps(v)
		if f != nil {
			return nil, "", f
		}
		out = append(out, flag.with(json, false))
	default:
		out = append(out, flag.with(text(v), v == nil))
	}
	return out, "", nil
}

// within counts the values in v, shared ones each time, and stops at the budget.
func within(v any, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !within(e, left) {
				return false
			}
		}
	case *dict:
		for _, it := range v.items {
			if !within(it.value, left) {
				return false
			}
		}
	}
	return true
}

func (t token) with(text string, null bool) token {
	t.text, t.null = text, null
	return t
}

func (c *table) flattenFalse(it item, path string, negated func(string) bool) ([]token, string, *failure) {
	key := text(it.key)
	if flag := "--no-" + key; negated != nil && negated(flag) {
		return []token{{text: flag, path: path, line: it.line, key: key}}, "", nil
	}
	return nil, c.falseNote(key), nil
}

// falseNote says what a dropped false means: nothing when false is the default.
func (c *table) falseNote(key string) string {
	name := strings.ReplaceAll(key, "_", "-")
	option := c.byFlag["--"+name]
	switch {
	case option == nil:
		return fmt.Sprintf("%q is no option of the engine; nobody notices, because its value false is dropped", key)
	case option.negative("--" + name):
		return fmt.Sprintf("%q with the value false is dropped in silence: write %s: true", key, option.Name)
	case !option.Negatable:
		return fmt.Sprintf("the value false of %q is dropped in silence, and the default stays: remove the line or write the value that is meant", key)
	case option.Default == false:
		return ""
	}
	return fmt.Sprintf("the value false of %q is dropped in silence, and the default stays (%s): write no-%s: true", key, defaultText(option.Default), name)
}

func badKey(it item) *failure {
	class := className(it.key)
	if _, ok := it.key.(moment); ok {
		class = "datetime." + class
	}
	return &failure{exit: 1, errorType: "TypeError", kind: KindBadKey,
		text: fmt.Sprintf(`can only concatenate str (not "%s") to str`, class),
		what: fmt.Sprintf("the key %s is read as a %s, not as text; put it in quotation marks", text(it.key), className(it.key))}
}
