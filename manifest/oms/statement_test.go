package oms

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/hex"
	"math/big"
	"os"
	"strings"
	"testing"
)

// The answer of RFC 6979, A.2.5, for P-256 with SHA-256 and the message "sample".
func TestNonceOfRFC6979(t *testing.T) {
	d, _ := hex.DecodeString("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signBytes(key, []byte("sample"))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := new(big.Int).SetString("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716", 16)
	s, _ := new(big.Int).SetString("f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8", 16)
	want := append([]byte{0x30, 0x46, 0x02, 0x21, 0}, r.Bytes()...)
	want = append(append(want, 0x02, 0x21, 0), s.Bytes()...)
	if string(sig) != string(want) {
		t.Errorf("got %x, want %x", sig, want)
	}
}

// The example of the DSSE protocol, with the payload type that is fixed here.
func TestPreAuth(t *testing.T) {
	if got, want := string(preAuth([]byte("hello world"))), "DSSEv1 28 application/vnd.in-toto+json 11 hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// digestA is the SHA-256 of "a", rootA the SHA-256 of that digest's bytes, by sha256sum.
const (
	digestA = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	rootA   = "bf5d3affb73efd2ec6c36ad3112dd933efed63c4e1cbffcfa88e2759c144f2d8"
)

// statementOf is a statement that is sound until a test says otherwise.
const statementOf = `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"m","digest":{"sha256":"` + rootA + `"}}],` +
	`"predicateType":"https://model_signing/signature/v1.0","predicate":{"serialization":{"method":"files","hash_type":"sha256","allow_symlinks":false},` +
	`"resources":[{"name":"a","algorithm":"sha256","digest":"` + digestA + `"}]}}`

func TestDecodeRefusesContradictions(t *testing.T) {
	resource := `{"name":"a","algorithm":"sha256","digest":"` + digestA + `"}`
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"name":"a"`, `"name":"a:b:0:1"`, ""},
		{`"allow_symlinks":false`, `"allow_symlinks":true,"ignore_paths":["x"],"later":1`, ""},
		{rootA, digestA, "contradicts itself: its root"},
		{rootA, "", "contradicts itself: its root"},
		{resource, "", "names no file"},
		{`"name":"a"`, `"name":"../a"`, "no path below"},
		{`"name":"a"`, `"name":"/a"`, "no path below"},
		{`"name":"a"`, `"name":""`, "no path below"},
		{`"name":"a"`, `"name":"."`, "no path below"},
		{`"name":"a"`, `"name":"b/./a"`, "no path below"},
		{digestA, "xyz", "not hexadecimal"},
		{`"algorithm":"sha256"`, `"algorithm":"md5"`, "contradicts itself"},
		{`"hash_type":"sha256"`, `"hash_type":"blake3"`, "contradicts itself"},
		{`"hash_type":"sha256"`, `"hash_type":"md5"`, "known are"},
		{`"method":"files"`, `"method":"bytes"`, "known are"},
		{`"method":"files"`, `"method":"shards"`, "shard size 0"},
		{`"method":"files"`, `"method":"shards","shard_size":1.5`, "shard size 1.5"},
		{`"method":"files"`, `"method":"shards","shard_size":1e300`, "shard size 1e+300"},
		{`"method":"files"`, `"method":"shards","shard_size":64`, "contradicts itself"},
		{`{"name":"m",`, `{"name":"m"},{"name":"m",`, "2 subjects"},
		{"signature/v1.0", "signature/v2.0", "predicate"},
		{"signature/v1.0", "Digests/v0.1", "before 1.0"},
		{"Statement/v1", "Statement/v0.1", "type"},
		{`"allow_symlinks":false`, `"allow_symlinks":"false"`, "no statement"},
		{`{"_type"`, `x{"_type"`, "no statement"},
	} {
		payload := strings.Replace(statementOf, c.old, c.new, 1)
		// "a:b:0:1" stands for the other direction: a colon is part of a file's name.
		if _, err := decode([]byte(payload)); (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q → %q: got %v, want %q", c.old, c.new, err, c.want)
		}
	}
}

func TestFilesRefusesGapsBetweenShards(t *testing.T) {
	for names, ok := range map[string]bool{
		"a:0:64 a:64:128 a:128:130": true, "a:64:128 a:0:64": true, "a:0:1 b:0:64": true, "x:y:0:64": true, "a:0:64": true,
		"a:0:64 a:65:128": false, "a:0:64 a:63:128": false, "a:0:63 a:63:64": false, "a:0:65": false, "a:64:128": false, "a:0:64 a:0:64": false,
		"a:1:64": false, "a:0:0": false, "a:5:1": false, "a:-1:5": false, "a:0": false, "a": false, ":0:1": false, "a:0:9223372036854775808": false, "../a:0:1": false, "a:0x0:1": false,
	} {
		s := &Statement{Serialization: Serialization{Method: "shards", HashType: "sha256", ShardSize: 64}}
		for n := range strings.FieldsSeq(names) {
			s.Resources = append(s.Resources, Resource{n, "sha256-sharded-64", digestA})
		}
		if _, err := s.files(); (err == nil) != ok {
			t.Errorf("%s: %v", names, err)
		}
	}
	twice := &Statement{Serialization: Serialization{Method: "files"}, Resources: []Resource{{"a", "sha256", digestA}, {"a", "sha256", rootA}}}
	if _, err := twice.files(); err == nil {
		t.Error("a file stands twice")
	}
}

// An ignored path that is not below the model ignores nothing: else "." would
// make every file pass.
func TestIgnoredBy(t *testing.T) {
	for _, c := range []struct {
		path, ignore string
		want         bool
	}{
		{"a", "a", true}, {"a/b", "a", true}, {"a/b", "a/", true}, {"a/b", "./a", true}, {"a/b/c", "a/b", true}, {".git/x", ".git", true},
		{"ab", "a", false}, {"b/a", "a", false}, {"a", ".", false}, {"a", "", false}, {"a", "./", false}, {"a", "/", false}, {"a", "..", false}, {"a", "../m", false},
		{"a", "/a", false}, {"a", "a*", false}, {"a", "b/../a", false}, {"a", "A", false},
	} {
		if got := ignoredBy(c.path, []string{c.ignore}) != ""; got != c.want {
			t.Errorf("%q ignored by %q: %v", c.path, c.ignore, got)
		}
	}
}

// FuzzBundle: no bytes may make the readers panic, and a statement that is taken
// is sound: written again it is taken again, and it holds for its own digests.
func FuzzBundle(f *testing.F) {
	for _, name := range []string{"mini.sig", "mini-shards.sig", "mini-blake2.sig", "mini-blake3.sig", "tiny-base.sig"} {
		data, err := os.ReadFile("../../testdata/oms/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		b, err := ReadBundle(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.payload)
	}
	f.Add([]byte(statementOf))
	f.Fuzz(func(t *testing.T, data []byte) {
		payload := data
		if b, err := ReadBundle(data); err == nil {
			payload = b.payload
		}
		s, err := decode(payload)
		if err != nil {
			return
		}
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(text)
		if err != nil || back.Root != s.Root || len(back.Resources) != len(s.Resources) {
			t.Fatalf("it is not read again: %v", err)
		}
		if s.Serialization.Method != "files" || s.Serialization.HashType != "sha256" {
			return
		}
		if res, err := s.CheckDigests(s.Resources, nil, Options{}); err != nil || res.Matched != len(s.Resources) || res.Tampered(false) {
			t.Fatalf("it does not hold for itself: %+v, %v", res, err)
		}
	})
}
