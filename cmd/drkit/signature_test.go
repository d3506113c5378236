package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/redact"
	"drkit/manifest"
	"drkit/manifest/digest"
)

const omsGolden = "../../testdata/oms/"

// signing is a folder with a copy of the golden model, a key and its public half.
func signing(t *testing.T) (dir, key, pub string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "mini"), os.DirFS(omsGolden+"mini")); err != nil {
		t.Fatal(err)
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	key, pub = filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	put(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	put(t, pub, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	return dir, key, pub
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVerifySignatureOfModelSigning(t *testing.T) {
	for _, c := range []struct {
		signature string
		flags     []string
		status    errext.Status
		says      string
	}{
		{"mini.sig", nil, errext.Holds, "mini: is the model that was signed, 13 files match\n"},
		{"mini-shards.sig", nil, errext.Evidence, "unproven   empty.txt\n"},
		{"mini-shards.sig", []string{"--ignore-unsigned-files"}, errext.Holds, "unsigned   empty.txt\n"},
		{"mini-blake2.sig", nil, errext.Evidence, "13 not proven\n"},
		{"mini-blake3.sig", []string{"--ignore-unsigned-files"}, errext.Evidence, "13 not proven\n"},
		{"tiny-base.sig", nil, errext.Gate, "missing    tokenizer.json\n"},
	} {
		args := append([]string{"manifest", "verify-signature", "--key", omsGolden + "key.pub.pem", "--signature", omsGolden + c.signature, omsGolden + "mini"}, c.flags...)
		status, out, stderr := execute(t, args...)
		if status != c.status || !strings.Contains(out, c.says) || stderr != "" {
			t.Errorf("%s %q: status %d, %q, %s", c.signature, c.flags, status, stderr, out)
		}
		if !strings.Contains(out, "left out   by the signer: .git, .gitattributes") {
			t.Errorf("%s: it does not say what the signer left out: %s", c.signature, out)
		}
	}
}

func TestSignThenVerify(t *testing.T) {
	dir, key, pub := signing(t)
	model, sig := filepath.Join(dir, "mini"), filepath.Join(dir, "mini", "model.sig")
	verify := []string{"manifest", "verify-signature", "--key", pub, "--signature", sig, model}
	if status, out, stderr := execute(t, "manifest", "sign", "--key", key, "--ignore-path", "1_Pooling", "-o", sig, model); status != errext.Holds || out != "" || !strings.Contains(stderr, "12 files signed with the ECDSA P-256 key") {
		t.Fatalf("status %d, %q, %q", status, out, stderr)
	}
	if status, out, _ := execute(t, verify...); status != errext.Holds || !strings.Contains(out, "1_Pooling (1 here), model.sig (1 here)") {
		t.Errorf("status %d, %s", status, out)
	}
	put(t, filepath.Join(model, "a", "b"), []byte("x"))
	put(t, filepath.Join(model, "evil\x1b.py"), nil)
	if err := os.Remove(filepath.Join(model, "config.json")); err != nil {
		t.Fatal(err)
	}
	status, out, _ := execute(t, verify...)
	for _, want := range []string{"mini: is not the model that was signed, 10 files match, 1 differ, 1 missing, 1 not signed\n", "mismatch   a/b\n", "missing    config.json\n", `extra      "evil\x1b.py"` + "\n"} {
		if status != errext.Gate || !strings.Contains(out, want) {
			t.Errorf("status %d, it does not say %q: %s", status, want, out)
		}
	}
	status, out, _ = execute(t, append(verify, "--output", "json")...)
	var res struct {
		Schema, Verdict string
		Matched         int
		Mismatch        []struct{ Path, Why string }
		Missing, Extra  []string
		Statement       struct{ Root string }
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil || status != errext.Gate {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if res.Schema != "drkit.signature/1.0" || res.Verdict != "differs" || res.Matched != 10 || len(res.Mismatch) != 1 || res.Mismatch[0].Path != "a/b" ||
		len(res.Missing) != 1 || res.Missing[0] != "config.json" || len(res.Extra) != 1 || len(res.Statement.Root) != 64 {
		t.Errorf("%+v", res)
	}
}

func TestSignatureThatDoesNotHold(t *testing.T) {
	dir, _, pub := signing(t)
	bad := filepath.Join(dir, "bad.sig")
	put(t, bad, []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`))
	for _, c := range []struct {
		args   []string
		status errext.Status
		says   string
	}{
		{[]string{"--key", pub, "--signature", omsGolden + "mini.sig"}, errext.Evidence, "another key"},
		{[]string{"--key", pub, "--signature", bad}, errext.Evidence, "payload"},
		{[]string{"--key", pub, "--signature", pub}, errext.Evidence, "no Sigstore bundle"},
		{[]string{"--key", pub}, errext.Usage, "--signature is missing"},
		{[]string{"--key", pub, "--signature", filepath.Join(dir, "none")}, errext.Usage, "no such file"},
		{[]string{"--signature", bad}, errext.Usage, "--key is missing"},
		{[]string{"--key", filepath.Join(dir, "key.pem"), "--signature", bad}, errext.Usage, "want PUBLIC KEY"},
		{[]string{"--key", dir, "--signature", bad}, errext.Usage, "reading --key"},
		{[]string{"--key", pub, "--signature", bad, "--output", "xml"}, errext.Usage, "--output"},
	} {
		status, out, stderr := execute(t, append([]string{"manifest", "verify-signature", filepath.Join(dir, "mini")}, c.args...)...)
		if status != c.status || out != "" || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "\n  hint: ") {
			t.Errorf("%q: status %d, %q, %q", c.args, status, out, stderr)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	dir, key, pub := signing(t)
	model := filepath.Join(dir, "mini")
	linked := filepath.Join(dir, "linked")
	if err := os.Symlink(model, linked); err != nil {
		t.Fatal(err)
	}
	withLink := filepath.Join(dir, "with-link")
	if err := os.CopyFS(withLink, os.DirFS(omsGolden+"mini")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("config.json", filepath.Join(withLink, "link.json")); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, c := range []struct {
		args   []string
		status errext.Status
		says   string
	}{
		{[]string{model}, errext.Usage, "--key is missing"},
		{[]string{"--key", pub, model}, errext.Usage, "public key"},
		{[]string{"--key", key, filepath.Join(dir, "none")}, errext.Usage, "no such file"},
		{[]string{"--key", key, linked}, errext.Usage, "symbolic link"},
		{[]string{"--key", key, withLink}, errext.Refused, `"link.json": it is a symbolic link`},
		{[]string{"--key", key, empty}, errext.Failed, "no file to sign"},
		{[]string{"--key", key, "--ignore-path", "../x", model}, errext.Usage, "--ignore-path"},
		{[]string{"--key", key, "--tree", "adapters/x", model}, errext.Usage, "--tree"},
		{[]string{"--key", key, "--manifest", "m.json", model}, errext.Usage, "--manifest"},
		{[]string{"--key", key, "--password-env", "NONE", model}, errext.Usage, "NONE is empty"},
		{[]string{"--key", "../../manifest/oms/testdata/aes256-sha256.pem", model}, errext.Usage, "is encrypted"},
		{[]string{"--key", key, "-o", filepath.Join(dir, "none", "x.sig"), model}, errext.Evidence, "none"},
	} {
		status, out, stderr := execute(t, append([]string{"manifest", "sign"}, c.args...)...)
		if status != c.status || out != "" || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "\n  hint: ") {
			t.Errorf("%q: status %d, %q, %q", c.args, status, out, stderr)
		}
	}
	for _, args := range [][]string{{linked}, {withLink}} {
		if status, _, stderr := execute(t, append([]string{"manifest", "sign", "--allow-symlinks", "--key", key}, args...)...); status != errext.Holds {
			t.Errorf("%q with --allow-symlinks: status %d, %s", args, status, stderr)
		}
	}
}

// The password opens the key and reaches no output.
func TestSignWithPassword(t *testing.T) {
	var stdout, stderr bytes.Buffer
	r := redact.New()
	s := &streams{In: strings.NewReader(""), Out: r.Writer(&stdout), Err: r.Writer(&stderr), Redactor: r, RawOut: os.Stdout,
		Getenv: func(name string) string { return map[string]string{"LOCK": "correct-horse"}[name] }}
	status := run(t.Context(), []string{"manifest", "sign", "--key", "../../manifest/oms/testdata/aes256-sha256.pem", "--password-env", "LOCK", omsGolden + "mini"}, s)
	s.Err.Write([]byte("correct-horse"))
	s.Err.Flush()
	if status != errext.Holds || stderr.String() != redact.Mark {
		t.Fatalf("status %d, %q", status, stderr.String())
	}
	sig := filepath.Join(t.TempDir(), "sig")
	put(t, sig, stdout.Bytes())
	if status, out, _ := execute(t, "manifest", "verify-signature", "--key", "../../manifest/oms/testdata/test.pub.pem", "--signature", sig, omsGolden+"mini"); status != errext.Holds {
		t.Errorf("status %d, %s", status, out)
	}
}

// goldenManifest is a manifest file whose base model is the golden one, with one
// file changed.
func goldenManifest(t *testing.T, changed string) string {
	t.Helper()
	var listing struct {
		Files []struct {
			Path, SHA256 string
			Size         int64
		}
	}
	data, err := os.ReadFile(omsGolden + "mini.listing.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &listing); err != nil {
		t.Fatal(err)
	}
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	for _, f := range listing.Files {
		if f.Path == changed {
			f.SHA256 = strings.Repeat("0", 64)
		}
		m.Contents.Files = append(m.Contents.Files, manifest.File{Part: manifest.Model, Path: "base/" + f.Path, Size: f.Size, Role: manifest.Other, Sums: digest.Set{digest.SHA256: f.SHA256}})
	}
	m.Release = manifest.ReleaseID(m.Contents)
	if data, err = manifest.Encode(m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "manifest.json")
	put(t, path, data)
	return path
}

// A manifest's base model and its folder are one model to a signature.
func TestManifestAndFolderAgree(t *testing.T) {
	dir, key, pub := signing(t)
	same, other := goldenManifest(t, ""), goldenManifest(t, "a/b")
	sig := filepath.Join(dir, "manifest.sig")
	if status, _, stderr := execute(t, "manifest", "sign", "--key", key, "-o", sig, same); status != errext.Holds || !strings.Contains(stderr, "root 530a17394552487611d120fa6baf170aa6ed3b4b4d5b1061a8a7c81c8c6a640d") {
		t.Fatalf("status %d, %s", status, stderr)
	}
	golden := []string{"--key", omsGolden + "key.pub.pem", "--signature", omsGolden + "mini.sig"}
	for _, c := range []struct {
		args   []string
		status errext.Status
		says   string
	}{
		{[]string{"--key", pub, "--signature", sig, filepath.Join(dir, "mini")}, errext.Holds, "13 files match"},
		{[]string{"--key", pub, "--signature", sig, same}, errext.Holds, "13 files match"},
		{append(golden, same), errext.Holds, "model/base of release"},
		{append(golden, "--manifest", same), errext.Holds, "13 files match"},
		{append(golden, other), errext.Gate, "mismatch   a/b\n"},
		{append(golden, "--tree", "adapters/x", same), errext.Usage, ""},
		{append(golden, "--allow-symlinks", same), errext.Usage, ""},
		{[]string{"--key", omsGolden + "key.pub.pem", "--signature", omsGolden + "mini-shards.sig", same}, errext.Evidence, ""},
	} {
		status, out, stderr := execute(t, append([]string{"manifest", "verify-signature"}, c.args...)...)
		if status != c.status || !strings.Contains(out, c.says) || (c.says == "" && !strings.Contains(stderr, "\n  hint: ")) {
			t.Errorf("%q: status %d, %q, %s", c.args, status, stderr, out)
		}
	}
}

func TestExport(t *testing.T) {
	m := goldenManifest(t, "")
	for format, want := range map[string]string{
		"oms":       `"digest":{"sha256":"530a17394552487611d120fa6baf170aa6ed3b4b4d5b1061a8a7c81c8c6a640d"}`,
		"sha256sum": "a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa  model/base/a/b\n",
		"cyclonedx": `"specVersion": "1.6"`,
	} {
		status, out, stderr := execute(t, "manifest", "export", "--format", format, m)
		if status != errext.Holds || !strings.Contains(out, want) || stderr != "" {
			t.Errorf("%s: status %d, %q, %s", format, status, stderr, out)
		}
		file := filepath.Join(t.TempDir(), "out")
		if status, _, _ := execute(t, "manifest", "export", "--format", format, "-o", file, "--manifest", m); status != errext.Holds {
			t.Errorf("%s -o: status %d", format, status)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != out {
			t.Errorf("%s: the file has other bytes than stdout, %v", format, err)
		}
	}
	for _, args := range [][]string{{"--format", "spdx", m}, {"--format", "sha256sum", "--tree", "adapters/x", m}, {"--tree", "adapters/x", m}, {m, "--manifest", m}} {
		if status, out, stderr := execute(t, append([]string{"manifest", "export"}, args...)...); status != errext.Usage || out != "" || !strings.Contains(stderr, "\n  hint: ") {
			t.Errorf("%q: status %d, %q, %q", args, status, out, stderr)
		}
	}
}
