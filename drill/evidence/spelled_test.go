package evidence

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drkit/drill/ledger"
)

// What readers of JSON could take for something else than drkit does is no evidence,
// whatever its sum: a name that stands twice or in other letters, a field left out, a
// word more; and a clock with two ends.
func TestSpelledOtherwise(t *testing.T) {
	w, runs := three(t)
	data := string(read(t, filepath.Join(ledger.Dir(w.dir, runs[0]), FileName)))
	if all := CheckFile([]byte(data)); len(all) > 0 {
		t.Fatal(all)
	}
	passed := `"result": "passed"`
	gates := data[:strings.Index(data, `"gates": [`)+strings.Index(data[strings.Index(data, `"gates": [`):], passed)]
	if !strings.HasPrefix(data[len(gates):], passed) {
		t.Fatal("no gate that passed")
	}
	for name, c := range map[string]struct{ text, want string }{
		"a gate failed, in capitals it passed": {gates + `"result": "failed", "RESULT": "passed"` + data[len(gates)+len(passed):], "not written as drkit writes it"},
		"a gate twice":                         {gates + `"result": "failed", "result": "passed"` + data[len(gates)+len(passed):], "not written as drkit writes it"},
		"the same in an older version":         {strings.Replace(gates, Schema, "drkit.evidence/1.1", 1) + `"result": "failed", "RESULT": "passed"` + data[len(gates)+len(passed):], `"RESULT" stands twice`},
		"no problems":                          {regexp.MustCompile(`(?m)^  "problems": \[\],\n`).ReplaceAllString(data, ""), "not written as drkit writes it"},
		"a list that follows":                  {strings.TrimSuffix(data, "}\n") + ", \"Gates\": []}\n", "not written as drkit writes it"},
		"something behind":                     {data + "{}\n", "no evidence of drkit"},
		"steady twice":                         {regexp.MustCompile(`(?s)(\{\s*"name": "steady".*?\n      \})`).ReplaceAllString(data, "$1,\n      $1"), "/clock/instants/"},
	} {
		if c.text == data {
			t.Fatalf("%s: nothing was changed", name)
		}
		var said string
		for _, f := range CheckFile(ledger.WithSum(unsummed(c.text))) {
			said += f.Field + ": " + f.What + "\n"
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: got %q, want %q", name, said, c.want)
		}
	}
}

var sumOf = regexp.MustCompile(`("sum": ")[0-9a-f]{64}"`)

func unsummed(text string) []byte {
	return []byte(sumOf.ReplaceAllString(text, "${1}"+ledger.NoRecord+`"`))
}
