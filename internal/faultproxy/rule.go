package faultproxy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is one sort of fault.
type Kind string

// The faults.
const (
	Latency       Kind = "latency"      // the answer comes later
	InternalError Kind = "500"          // InternalError, nothing done
	SlowDown      Kind = "503"          // SlowDown, nothing done
	Reset         Kind = "reset"        // the connection is reset in the middle of the body
	Truncate      Kind = "truncate"     // the body ends early although Content-Length announces all of it
	Short         Kind = "short"        // the body ends early and Content-Length agrees
	WrongBytes    Kind = "wrong-bytes"  // one byte of the body is another
	WrongUpload   Kind = "wrong-upload" // one byte of the request's body is another
	LostAnswer    Kind = "lost-answer"  // the request is carried out, and the connection closes without an answer
	StaleList     Kind = "stale-list"   // a request is answered as the first of its kind was
	ClockSkew     Kind = "clock-skew"   // RequestTimeTooSkewed, nothing done
	Expired       Kind = "expired"      // ExpiredToken, nothing done
	Temporary     Kind = "307"          // TemporaryRedirect to the same place, or to Location
	Permanent     Kind = "301"          // PermanentRedirect that names Region
	Hang          Kind = "hang"         // no answer until the client gives up or the proxy is closed
)

// Kinds lists all faults.
var Kinds = []Kind{Latency, InternalError, SlowDown, Reset, Truncate, Short, WrongBytes, WrongUpload, LostAnswer, StaleList, ClockSkew, Expired, Temporary, Permanent, Hang}

// Rule says which requests meet a fault. A request meets the first rule that
// applies to it. The zero value of a field does not restrict.
type Rule struct {
	Kind   Kind
	Method string         // "GET"; a list may be given as "GET|HEAD"
	Path   *regexp.Regexp // found in the decoded path: "/bucket/key"
	Query  *regexp.Regexp // found in the raw query
	Nth    int            // only the nth request that fits, counted from 1
	Chance float64        // of each request that fits; 0 is always
	Limit  int            // at most so many times

	Delay    time.Duration // of Latency
	At       int64         // offset of the fault in the body in bytes; 0: chosen from the seed
	Location string        // of Temporary
	Region   string        // of Permanent
}

// ParseRule reads a rule as a command line gives it: the kind, then fields, all
// separated by commas: "503,method=GET,path=^/b/model/,nth=2".
func ParseRule(text string) (Rule, error) {
	fields := strings.Split(text, ",")
	r := Rule{Kind: Kind(fields[0])}
	if !slices.Contains(Kinds, r.Kind) {
		return r, fmt.Errorf("rule %q: unknown fault %q: want one of %v", text, fields[0], Kinds)
	}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		if err := r.set(name, value); err != nil {
			return r, fmt.Errorf("rule %q: field %q: %w", text, name, err)
		}
	}
	if r.Nth < 0 || r.Limit < 0 || r.At < 0 {
		return r, fmt.Errorf("rule %q: nth, limit and at are not below 0", text)
	}
	if r.Kind == Latency && r.Delay <= 0 {
		return r, fmt.Errorf("rule %q: latency needs delay=DURATION", text)
	}
	return r, nil
}

func (r *Rule) set(name, value string) (err error) {
	switch name {
	case "method":
		r.Method = value
	case "path":
		r.Path, err = regexp.Compile(value)
	case "query":
		r.Query, err = regexp.Compile(value)
	case "nth":
		r.Nth, err = strconv.Atoi(value)
	case "chance":
		if r.Chance, err = strconv.ParseFloat(value, 64); err == nil && !(r.Chance > 0 && r.Chance <= 1) {
			err = fmt.Errorf("%s is not above 0 and at most 1", value)
		}
	case "limit":
		r.Limit, err = strconv.Atoi(value)
	case "delay":
		r.Delay, err = time.ParseDuration(value)
	case "at":
		r.At, err = strconv.ParseInt(value, 10, 64)
	case "location":
		r.Location = value
	case "region":
		r.Region = value
	default:
		err = fmt.Errorf("unknown: want method, path, query, nth, chance, limit, delay, at, location or region")
	}
	return err
}

// fits reports whether a request is one that the rule is about. A HEAD has no
// body to shorten or to alter.
func (r *Rule) fits(method, path, query string) bool {
	bodiless := method == "HEAD" && (r.Kind == Short || r.Kind == WrongBytes)
	return !bodiless && (r.Method == "" || slices.Contains(strings.Split(r.Method, "|"), method)) &&
		(r.Path == nil || r.Path.MatchString(path)) && (r.Query == nil || r.Query.MatchString(query))
}
