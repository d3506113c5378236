package engine

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The patterns of PyYAML's implicit resolver (YAML 1.1), in its order. The
// first characters limit each one, as PyYAML does.
var resolvers = []struct {
	tag     string
	first   string
	pattern *regexp.Regexp
}{
	{"bool", "yYnNtTfFoO", regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)},
	{"float", "-+0123456789.", regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)},
	{"int", "-+0123456789", regexp.MustCompile(`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)},
	{"merge", "<", regexp.MustCompile(`^<<$`)},
	{"null", "~nN", regexp.MustCompile(`^(?:~|null|Null|NULL)$`)},
	{"timestamp", "0123456789", timestamp},
	{"value", "=", regexp.MustCompile(`^=$`)},
}

var timestamp = regexp.MustCompile(`^([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:(?:[Tt]|[ \t]+)([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]*))?(?:[ \t]*(Z|([-+])([0-9]{1,2})(?::([0-9]{2}))?))?)?$`)

var shortDate = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// resolve is the tag of a plain scalar.
func resolve(s string) string {
	if s == "" {
		return "null"
	}
	for _, r := range resolvers {
		if strings.IndexByte(r.first, s[0]) < 0 || !r.pattern.MatchString(s) {
			continue
		}
		if r.tag == "timestamp" && !strings.Contains(s, ":") && !shortDate.MatchString(s) {
			continue // a date alone needs two digits for month and day
		}
		return r.tag
	}
	return "str"
}

func scalar(s, tag string) (any, *failure) {
	switch tag {
	case "null":
		return nil, nil
	case "bool":
		return boolValue(s)
	case "int":
		return intValue(s)
	case "float":
		return floatValue(s)
	case "timestamp":
		return momentValue(s)
	case "binary":
		return decodeBinary(s)
	}
	return s, nil
}

// misfit is the end of a value that its explicit tag does not allow.
func misfit(s, tag string) *failure {
	return &failure{exit: 1, errorType: "ValueError", text: fmt.Sprintf("invalid literal for %s: %s", tag, quote(s)),
		kind: KindSyntax, what: fmt.Sprintf("%q is no %s", s, tag)}
}

func boolValue(s string) (any, *failure) {
	switch strings.ToLower(s) {
	case "yes", "true", "on":
		return true, nil
	case "no", "false", "off":
		return false, nil
	}
	return nil, misfit(s, "bool")
}

func intValue(s string) (any, *failure) {
	body := strings.ReplaceAll(s, "_", "")
	negative := strings.HasPrefix(body, "-")
	if negative || strings.HasPrefix(body, "+") {
		body = body[1:]
	}
	n, ok := magnitude(body)
	if !ok {
		return nil, misfit(s, "int")
	}
	if negative {
		n.Neg(n)
	}
	if n.IsInt64() {
		return n.Int64(), nil
	}
	return n, nil
}

// magnitude reads the forms of YAML 1.1: 0b1, 017 (octal), 0x1f, 12:30 (base 60).
func magnitude(body string) (*big.Int, bool) {
	n := new(big.Int)
	if len(body) > 4000 || strings.ContainsAny(body, "+-") {
		return nil, false
	}
	switch {
	case body == "0":
		return n, true
	case strings.HasPrefix(body, "0b"):
		return n.SetString(body[2:], 2)
	case strings.HasPrefix(body, "0x"):
		return n.SetString(body[2:], 16)
	case strings.HasPrefix(body, "0"):
		return n.SetString(body, 8)
	case strings.Contains(body, ":"):
		for part := range strings.SplitSeq(body, ":") {
			digit, ok := new(big.Int).SetString(part, 10)
			if !ok {
				return nil, false
			}
			n.Mul(n, big.NewInt(60)).Add(n, digit)
		}
		return n, true
	}
	return n.SetString(body, 10)
}

func floatValue(s string) (any, *failure) {
	body := strings.ToLower(strings.ReplaceAll(s, "_", ""))
	sign := 1.0
	if strings.HasPrefix(body, "-") {
		sign = -1
	}
	if body != "" && strings.ContainsAny(body[:1], "+-") {
		body = body[1:]
	}
	switch {
	case body == ".inf":
		return sign * math.Inf(1), nil
	case body == ".nan":
		return math.NaN(), nil
	case strings.Contains(body, ":"):
		total := 0.0
		for part := range strings.SplitSeq(body, ":") {
			f, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return nil, misfit(s, "float")
			}
			total = total*60 + f
		}
		return sign * total, nil
	}
	f, err := parseFloat(body)
	if err != nil {
		return nil, misfit(s, "float")
	}
	return sign * f.(float64), nil
}

// momentValue reads a timestamp into the text that Python prints for it.
func momentValue(s string) (any, *failure) {
	m := timestamp.FindStringSubmatch(s)
	if m == nil {
		return nil, misfit(s, "timestamp")
	}
	year, month, day := atoi(m[1]), atoi(m[2]), atoi(m[3])
	hour, minute, second := atoi(m[4]), atoi(m[5]), atoi(m[6])
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if year < 1 || t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return nil, &failure{exit: 1, errorType: "ValueError", text: "the date is out of range", kind: KindSyntax,
			what: fmt.Sprintf("%q looks like a date and is none; put it in quotation marks", s)}
	}
	if m[4] == "" {
		return moment{t.Format("2006-01-02"), "date"}, nil
	}
	return moment{t.Format("2006-01-02 15:04:05") + fractionText(m[7]) + offsetText(m), "datetime"}, nil
}

func fractionText(digits string) string {
	micro := atoi((digits + "000000")[:6])
	if micro == 0 {
		return ""
	}
	return fmt.Sprintf(".%06d", micro)
}

func offsetText(m []string) string {
	switch {
	case m[8] == "":
		return ""
	case m[9] == "":
		return "+00:00"
	}
	hours, minutes := atoi(m[10]), atoi(m[11])
	if hours == 0 && minutes == 0 {
		return "+00:00"
	}
	return fmt.Sprintf("%s%02d:%02d", m[9], hours, minutes)
}

// atoi reads digits that a pattern has already checked; "" is 0.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
