package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestSGLang compares random command lines and files with what SGLang makes of
// them: each release's own reader of configuration files and its argparse actions,
// with its catalogue's options, on Python 3.11 (testdata/sglang.jsonl).
func TestSGLang(t *testing.T) {
	data, err := os.ReadFile("testdata/sglang.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines, compared := bufio.NewScanner(bytes.NewReader(data)), map[string]int{}
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var want struct {
			Version   string
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
		r := Parse(Command{Argv: want.Argv, Entry: EntryLaunch, Version: want.Version, Files: files, AllFiles: true})
		if exitOf(r.WouldExit) != exitOf(want.Exit) || r.ErrorType != want.ErrorType || want.ErrorType != "JSONDecodeError" && r.Error != want.Error {
			t.Errorf("%s %q %q\n     %d %s %s\nwant %d %s %s", want.Version, want.Argv, want.Files,
				exitOf(r.WouldExit), r.ErrorType, r.Error, exitOf(want.Exit), want.ErrorType, want.Error)
			continue
		}
		if want.Exit == nil && !reflect.DeepEqual(asJSON(t, r.Options), asJSON(t, want.Options)) {
			t.Errorf("%s %q %q\n     %v\nwant %v", want.Version, want.Argv, want.Files, asJSON(t, r.Options), asJSON(t, want.Options))
		}
	}
	for _, v := range Releases(SGLang) {
		if compared[v] < 100 {
			t.Errorf("%d command lines of %s were compared, want at least 100", compared[v], v)
		}
	}
}
