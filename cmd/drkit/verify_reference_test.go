package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
)

const (
	abcSum   = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
	emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of nothing
)

// TestSHA256Sums reads what GNU coreutils 9.1 wrote of such names.
func TestSHA256Sums(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"text mode": {abcSum + "  plain\n\\" + abcSum + "  back\\\\slash\n\\" + abcSum + "  new\\nline\n\\" + abcSum + "  ret\\rurn\n" + abcSum + "   lead  two\n" + emptySum + "  ./d/empty\n",
			map[string]string{"plain": abcSum, `back\slash`: abcSum, "new\nline": abcSum, "ret\rurn": abcSum, " lead  two": abcSum, "d/empty": emptySum}},
		"binary mode":              {abcSum + " *plain\n", map[string]string{"plain": abcSum}},
		"tagged":                   {"SHA256 (plain) = " + abcSum + "\n\\SHA256 (back\\\\slash) = " + abcSum + "\nSHA256 (a) = b) = " + emptySum + "\n", map[string]string{"plain": abcSum, `back\slash`: abcSum, "a) = b": emptySum}},
		"comments, no newline":     {"# made by hand\n" + strings.ToUpper(abcSum) + "  plain", map[string]string{"plain": abcSum}},
		"an asterisk in a name":    {abcSum + "  *a\n", map[string]string{"*a": abcSum}},
		"a backslash, not escaped": {abcSum + `  a\b` + "\n", map[string]string{`a\b`: abcSum}},
	} {
		if got, err := parseSHA256Sums([]byte(c.text)); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestSHA256SumsThatAreNone(t *testing.T) {
	for text, says := range map[string]string{
		"":                                    "empty",
		"\n":                                  "empty",
		"hello\n":                             "line 1: it is not 64 digits",
		abcSum + "  a\n\n" + abcSum + "  b\n": "line 2: it is not 64 digits",
		abcSum + " a\n":                       "it is not 64 digits",
		abcSum + "  \n":                       "it is not 64 digits",
		abcSum[:40] + "  a\n":                 "it is not 64 digits", // SHA-1
		"g" + abcSum[1:] + "  a\n":            "no SHA-256",
		abcSum + "  a\r\n":                    "carriage return",
		abcSum + "  a\n" + emptySum + "  a\n": `"a" stands twice`,
		abcSum + "  a\n" + abcSum + "  ./a\n": `"a" stands twice`,
		abcSum + "  /etc/passwd\n":            "not relative",
		abcSum + "  -\n":                      "names no file",
		`\` + abcSum + `  a\tb` + "\n":        "an escape other than",
		`\` + abcSum + `  a\` + "\n":          "an escape other than",
		"SHA256 (a = " + abcSum + "\n":        `without ") = "`,
		"MD5 (a) = " + abcSum + "\n":          "it is not 64 digits",
	} {
		if got, err := parseSHA256Sums([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := parseSHA256Sums([]byte(strings.Repeat("x\n", 100000))); err == nil || strings.Count(err.Error(), "\n") > 10 {
		t.Errorf("%d errors of one mistake", strings.Count(err.Error(), "\n"))
	}
}

func FuzzSHA256Sums(f *testing.F) {
	f.Add(abcSum + "  plain\n")
	f.Add(`\` + abcSum + `  a\\b` + "\nSHA256 (x) = " + emptySum)
	f.Fuzz(func(t *testing.T, text string) {
		files, err := parseSHA256Sums([]byte(text))
		if err != nil {
			return
		}
		for name, sum := range files {
			if name == "" || len(sum) != 64 || strings.ToLower(sum) != sum {
				t.Errorf("%q: %q", name, sum)
			}
		}
	})
}

// TestVerifyAgainstASignature: a signature that model_signing made is a list of
// files; with a key its maker is proven first.
func TestVerifyAgainstASignature(t *testing.T) {
	golden, err := filepath.Abs("../../testdata/oms")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "mini")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(golden, "mini"))); err != nil {
		t.Fatal(err)
	}
	sig, pub := filepath.Join(golden, "mini.sig"), filepath.Join(golden, "key.pub.pem")
	var r reportRun
	for _, c := range []struct {
		name   string
		args   []string
		status errext.Status
		says   string
	}{
		{"without a key", []string{sig, copied}, errext.Holds, "unsigned claim: its signature was not checked"},
		{"with the key", []string{sig, copied, "--key", pub}, errext.Holds, "was made by the key in"},
		{"what the signer left out", []string{sig, copied, "--key", pub}, errext.Holds, "it says nothing of .git"},
		{"no key", []string{sig, copied, "--key", sig}, errext.Usage, "reading the key"},
		{"another key", []string{sig, copied, "--key", filepath.Join("..", "..", "manifest", "oms", "testdata", "test.pub.pem")}, errext.Evidence, "another key"},
		{"digests of other algorithms", []string{filepath.Join(golden, "mini-blake3.sig"), copied}, errext.Usage, "blake3"},
		{"digests of shards", []string{filepath.Join(golden, "mini-shards.sig"), copied}, errext.Usage, "verify-signature FOLDER"},
	} {
		status := r.run(t, append([]string{"verify"}, c.args...)...)
		if text := r.out.String() + r.err.String(); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: status %v, %q is to be said:\n%s", c.name, status, c.says, text)
		}
	}
	damaged, err := filepath.Glob(filepath.Join(copied, "*.json"))
	if err != nil || len(damaged) == 0 {
		t.Fatalf("%v %v", damaged, err)
	}
	data, err := os.ReadFile(damaged[0])
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(damaged[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	if status := r.run(t, "verify", sig, copied, "--key", pub); status != errext.Gate || !strings.Contains(r.out.String(), "diverged  "+filepath.Base(damaged[0])) {
		t.Errorf("a damaged file: status %v\n%s", status, r.out.String())
	}
}
