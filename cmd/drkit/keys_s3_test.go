package main

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
)

// oddNames are the keys of a public report with the MD5 of their content, as the
// report's case states it.
var oddNames = map[string]string{
	"a+b.bin":     "85f1ecc05f7aa96ceea40ff89d58961f",
	"a b.bin":     "291ded427678ceefb343d59ecb41d046",
	"a%2Bb.bin":   "98eabfa322a4118f53aee4a8c1afde2f",
	"c#d?e.bin":   "cb52c250cf4ff338661682ff0c9093ea",
	"e&f=g;h.bin": "c8cae165934ae0b5cdfa1063d046d1d0",
	"重み.bin":      "13bf3ee64376fbbbf7fbb62aa847585f",
}

// seeded is the content that the cases describe by a seed and a size.
func seeded(seed string, size int) []byte {
	var all []byte
	for i := 0; len(all) < size; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", seed, i))
		all = append(all, sum[:]...)
	}
	return all[:size]
}

// TestEveryKeySurvivesTheWholeWay: a wrong encoder copies "a b" in place of "a+b".
// Six contents go through both kinds of copy, every report, and a restore.
func TestEveryKeySurvivesTheWholeWay(t *testing.T) {
	for _, one := range []bool{true, false} {
		model := t.TempDir()
		if err := os.CopyFS(model, os.DirFS("../../testdata/models/support-tiny")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(model, "adapters"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, sum := range oddNames {
			data := seeded("adapters/"+name, 4096)
			if got := fmt.Sprintf("%x", md5.Sum(data)); got != sum {
				t.Fatalf("%s: the content has the MD5 %s, want %s", name, got, sum)
			}
			if err := os.WriteFile(filepath.Join(model, "adapters", name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b := startBuckets(t, one, model)
		must(t, errext.Holds, "replicate", "--yes", "-f", b.file)
		text := must(t, errext.Holds, "verify", "-f", b.file, "--level", "content", "--output", "json", "--progress", "quiet")
		if n := oddMatches(t, text); n != len(oddNames) {
			t.Errorf("one server %v: %d of the odd keys match", one, n)
		}
		restored := t.TempDir()
		must(t, errext.Holds, "restore", "-f", b.file, "--region", "eu-west-1", restored)
		for name, sum := range oddNames {
			data, err := os.ReadFile(filepath.Join(restored, "model/base/adapters", name))
			if err != nil || fmt.Sprintf("%x", md5.Sum(data)) != sum {
				t.Errorf("%s: restored %d bytes, %v", name, len(data), err)
			}
		}
		must(t, errext.Holds, "verify", "s3://use1/llm?endpoint="+url.QueryEscape(b.usURL), "s3://euw1/llm+dr?endpoint="+url.QueryEscape(b.euURL), "--level", "content")
		for name := range oddNames {
			b.eu.Rot("euw1", b.key(t, "/adapters/"+name), 7, []byte("rot"))
		}
		reportsNameThem(t, b)
	}
}

func oddMatches(t *testing.T, text string) (n int) {
	t.Helper()
	var doc struct {
		Copies []struct {
			Gaps []struct{ Subject, Verdict string }
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range doc.Copies {
		for _, g := range c.Gaps {
			if _, odd := oddNames[strings.TrimPrefix(g.Subject, "model/base/adapters/")]; odd && g.Verdict == "match" {
				n++
			}
		}
	}
	return n
}

// reportsNameThem looks for each key in each kind of report, read back by a
// reader of that kind.
func reportsNameThem(t *testing.T, b buckets) {
	t.Helper()
	out := t.TempDir()
	args := []string{"verify", "-f", b.file, "--level", "content"}
	for _, kind := range []string{"junit", "sarif", "html", "markdown"} {
		args = append(args, "--report", kind+"="+filepath.Join(out, kind))
	}
	must(t, errext.Gate, args...)
	for kind, plain := range map[string]func(string) string{
		"junit": html.UnescapeString, "html": html.UnescapeString,
		"sarif": func(s string) string {
			for code, c := range map[string]string{`\u0026`: "&", `\u003d`: "="} {
				s = strings.ReplaceAll(s, code, c)
			}
			return s
		},
		"markdown": func(s string) string { return strings.ReplaceAll(html.UnescapeString(s), `\`, "") },
	} {
		data, err := os.ReadFile(filepath.Join(out, kind))
		if err != nil {
			t.Fatal(err)
		}
		for name := range oddNames {
			if !strings.Contains(plain(string(data)), name) {
				t.Errorf("the %s report does not name %s", kind, name)
			}
		}
	}
}
