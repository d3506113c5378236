package oms_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/manifest/oms"
)

func newKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	keys := map[string]crypto.Signer{}
	for name, c := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()} {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys["ECDSA "+name] = k
	}
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys["Ed25519"] = k
	return keys
}

func TestSignAndVerify(t *testing.T) {
	st := verified(t, "mini.sig")
	for name, key := range newKeys(t) {
		t.Run(name, func(t *testing.T) {
			if got := oms.KeyName(key.Public()); got != name {
				t.Errorf("it is called %s", got)
			}
			data, err := oms.Sign(st, key)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := oms.Sign(st, key); err != nil || !bytes.Equal(again, data) {
				t.Errorf("the same statement and key give other bytes, %v", err)
			}
			b, err := oms.ReadBundle(data)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := b.Verify(key.Public()); err != nil || got.Root != miniRoot || got.Name != "mini" {
				t.Errorf("%+v, %v", got, err)
			}
			other := newKeys(t)[name]
			if _, err := b.Verify(other.Public()); !errors.Is(err, oms.ErrKeyMismatch) || errext.StatusOf(err) != errext.Evidence {
				t.Errorf("another key: %v", err)
			}
		})
	}
}

// envelope gives access to a bundle's insides.
type envelope struct {
	MediaType    string `json:"mediaType"`
	Verification struct {
		PublicKey *struct {
			Hint string `json:"hint,omitempty"`
		} `json:"publicKey,omitempty"`
		Certificate any   `json:"certificate,omitempty"`
		Tlog        []any `json:"tlogEntries"`
	} `json:"verificationMaterial"`
	Envelope struct {
		Payload     []byte           `json:"payload"`
		PayloadType string           `json:"payloadType"`
		Signatures  []map[string]any `json:"signatures"`
	} `json:"dsseEnvelope"`
}

func TestDamagedBundlesDoNotHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*envelope)
		want   string
	}{
		{"unchanged", func(*envelope) {}, ""},
		{"no hint", func(e *envelope) { e.Verification.PublicKey.Hint = "" }, ""},
		{"no key at all", func(e *envelope) { e.Verification.PublicKey = nil }, ""},
		{"another hint", func(e *envelope) { e.Verification.PublicKey.Hint = strings.Repeat("0", 64) }, "another key"},
		{"payload, first byte", func(e *envelope) { e.Envelope.Payload[0] ^= 1 }, "does not belong"},
		{"payload, last byte", func(e *envelope) { e.Envelope.Payload[len(e.Envelope.Payload)-1] ^= 1 }, "does not belong"},
		{"payload, a space more", func(e *envelope) { e.Envelope.Payload = append(e.Envelope.Payload, ' ') }, "does not belong"},
		{"no payload", func(e *envelope) { e.Envelope.Payload = nil }, "does not belong"},
		{"another signature", func(e *envelope) {
			e.Envelope.Signatures[0]["sig"] = "MEUCIQDv1IsqrLao/RFA3ZzUXoHWnSyHe1aq+ZHDTQ6oTq83FgIhAPfLHJQtZXxB1DbHobbin2Xz6QDbua/0Bk3Eqy+EOs2o"
		}, "does not belong"},
		{"an empty signature", func(e *envelope) { e.Envelope.Signatures[0]["sig"] = "" }, "does not belong"},
		{"no base64", func(e *envelope) { e.Envelope.Signatures[0]["sig"] = "!" }, "base64"},
		{"no signature", func(e *envelope) { e.Envelope.Signatures = nil }, "0 signatures"},
		{"two signatures", func(e *envelope) { e.Envelope.Signatures = append(e.Envelope.Signatures, e.Envelope.Signatures[0]) }, "2 signatures"},
		{"another payload type", func(e *envelope) { e.Envelope.PayloadType = "text/plain" }, "text/plain"},
		{"another bundle", func(e *envelope) { e.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1" }, "media type"},
		{"a certificate", func(e *envelope) { e.Verification.Certificate = map[string]any{"rawBytes": "AA=="} }, "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e envelope
			if err := json.Unmarshal(read(t, "mini.sig"), &e); err != nil {
				t.Fatal(err)
			}
			c.change(&e)
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			err = holds(t, data)
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, text := range []string{"", "{}", "[]", "null", `{"mediaType":`, "\x00"} {
		if err := holds(t, []byte(text)); errext.StatusOf(err) != errext.Evidence {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func holds(t *testing.T, bundle []byte) error {
	key, err := oms.PublicKey(read(t, "key.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := oms.ReadBundle(bundle)
	if err != nil {
		return err
	}
	_, err = b.Verify(key)
	return err
}

// The hint of a real bundle is the fingerprint of its key.
func TestFingerprint(t *testing.T) {
	key, err := oms.PublicKey(read(t, "key.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := oms.Fingerprint(key); got != "7b35ca37c79dcaf37814dc3f0a374be8dd03389b79b7e7f5e40ace8cd78db9a7" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func keyFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The files are OpenSSL's.
func TestPrivateKeys(t *testing.T) {
	public, err := oms.PublicKey(keyFile(t, "test.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, password, want string }{
		{"sec1-with-parameters.pem", "", ""},
		{"aes256-sha256.pem", "correct-horse", ""},
		{"aes128-sha512.pem", "correct-horse", ""},
		{"aes192-sha1.pem", "correct-horse", ""},
		{"aes256-sha256.pem", "", "is encrypted"},
		{"aes256-sha256.pem", "battery", "does not open it"},
		{"scrypt.pem", "correct-horse", "not supported"},
		{"des3.pem", "correct-horse", "not supported"},
		{"legacy.pem", "correct-horse", "old form"},
		{"rsa.pem", "", "not supported"},
		{"p224.pem", "", "P-224 is not supported"},
		{"secp256k1.pem", "", "cannot be read"},
		{"test.pub.pem", "", "public key"},
		{"README.md", "", "no PEM text"},
	} {
		key, err := oms.PrivateKey(keyFile(t, c.file), []byte(c.password))
		switch {
		case c.want == "" && (err != nil || !key.Public().(*ecdsa.PublicKey).Equal(public)):
			t.Errorf("%s: %v", c.file, err)
		case c.want != "" && (key != nil || err == nil || !strings.Contains(err.Error(), c.want) || errext.Hint(err) == ""):
			t.Errorf("%s: got %v, want %q", c.file, err, c.want)
		}
	}
}

// Whatever is wrong with a private key, no error quotes it.
func TestErrorsDoNotQuoteTheKey(t *testing.T) {
	for _, name := range []string{"aes256-sha256.pem", "sec1-with-parameters.pem", "rsa.pem", "p224.pem", "legacy.pem"} {
		text := keyFile(t, name)
		lines := strings.Fields(string(text))
		for cut := range len(text) {
			_, err := oms.PrivateKey(text[:cut], []byte("correct-horse"))
			for _, secret := range lines {
				if err != nil && len(secret) > 20 && strings.Contains(err.Error(), secret) {
					t.Fatalf("%s cut at %d: %v", name, cut, err)
				}
			}
		}
	}
}

func TestPublicKeys(t *testing.T) {
	rsa, err := x509.ParsePKCS8PrivateKey(block(keyFile(t, "rsa.pem")))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(rsa.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{
		"not supported":  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"cannot be read": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der[1:]}),
		"a certificate":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"EC PRIVATE KEY": keyFile(t, "sec1-with-parameters.pem"),
		"no PEM text of": []byte(base64.StdEncoding.EncodeToString(der)),
	} {
		if key, err := oms.PublicKey(text); key != nil || err == nil || !strings.Contains(err.Error(), want) || errext.Hint(err) == "" {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func block(text []byte) []byte {
	b, _ := pem.Decode(text)
	return b.Bytes
}

// Each curve has its own hash.
func TestOtherCurvesOfModelSigning(t *testing.T) {
	for _, curve := range []string{"p384", "p521"} {
		key, err := oms.PublicKey(read(t, curve+".pub.pem"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := oms.ReadBundle(read(t, "mini-"+curve+".sig"))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := b.Verify(key); err != nil || s.Root != miniRoot {
			t.Errorf("%s: %+v, %v", curve, s, err)
		}
	}
}
