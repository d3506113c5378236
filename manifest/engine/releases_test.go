package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestReleases compares random command lines and files with what the argument
// parsers of all 15 releases made of them: each release's own parser class, with
// its catalogue's options, on Python 3.11 (testdata/releases.jsonl).
func TestReleases(t *testing.T) {
	data, err := os.ReadFile("testdata/releases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines, compared := bufio.NewScanner(bytes.NewReader(data)), map[string]int{}
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var want struct {
			Version   string
			Entry     Entry
			Argv      []string
			Files     map[string]string
			Exit      *int
			ErrorType string `json:"error_type"`
			Error     string
			Options   map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		compared[want.Version]++
		files := map[string][]byte{}
		for name, content := range want.Files {
			files[name] = []byte(content)
		}
		r := Parse(Command{Argv: want.Argv, Entry: want.Entry, Version: want.Version, Files: files})
		if !r.Judged || r.Version != want.Version {
			t.Errorf("%s %q: not judged: %+v", want.Version, want.Argv, r.Problems)
		}
		if exitOf(r.WouldExit) != exitOf(want.Exit) || r.ErrorType != want.ErrorType || r.Error != want.Error {
			t.Errorf("%s %s %q %q\n     %d %s %s\nwant %d %s %s", want.Version, want.Entry, want.Argv, want.Files,
				exitOf(r.WouldExit), r.ErrorType, r.Error, exitOf(want.Exit), want.ErrorType, want.Error)
			continue
		}
		if want.Exit == nil && !reflect.DeepEqual(withoutClass(asJSON(t, r.Options)), asJSON(t, want.Options)) {
			t.Errorf("%s %q %q\n     %v\nwant %v", want.Version, want.Argv, want.Files, asJSON(t, r.Options), asJSON(t, want.Options))
		}
	}
	for _, v := range Releases(VLLM) {
		if compared[v] < 50 {
			t.Errorf("%d command lines of %s were compared, want at least 50", compared[v], v)
		}
	}
}

// withoutClass leaves out the names of classes, which the recorded parsers do not
// build.
func withoutClass(v any) any {
	if m, ok := v.(map[string]any); ok {
		delete(m, "@")
		for _, inner := range m {
			withoutClass(inner)
		}
	}
	return v
}
