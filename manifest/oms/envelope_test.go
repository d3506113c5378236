package oms

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"drkit/internal/errext"
)

// TestPayload: the signed bytes are those of the DSSE specification, put together
// here by hand.
func TestPayload(t *testing.T) {
	seed := sha256.Sum256([]byte("test"))
	key := ed25519.NewKeyFromSeed(seed[:])
	public := key.Public().(ed25519.PublicKey)
	data, err := SignPayload([]byte(`{"a":1}`), key)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		Envelope struct {
			Payload    string
			Signatures []struct{ Sig string }
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(b.Envelope.Signatures[0].Sig)
	if err != nil || !ed25519.Verify(public, []byte(`DSSEv1 28 application/vnd.in-toto+json 7 {"a":1}`), sig) {
		t.Errorf("not signed as DSSE says: %v", err)
	}
	read := func(data []byte) ([]byte, error) {
		bundle, err := ReadBundle(data)
		if err != nil {
			return nil, err
		}
		return bundle.Open(public)
	}
	if payload, err := read(data); err != nil || string(payload) != `{"a":1}` {
		t.Errorf("%q %v", payload, err)
	}
	other := bytes.Replace(data, []byte(b.Envelope.Payload), []byte(base64.StdEncoding.EncodeToString([]byte(`{"a":2}`))), 1)
	if _, err := read(other); !errors.Is(err, ErrInvalid) || errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
		t.Errorf("another payload: %v", err)
	}
	bundle, err := ReadBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	seed[0]++
	if _, err := bundle.Open(ed25519.NewKeyFromSeed(seed[:]).Public()); !errors.Is(err, ErrKeyMismatch) {
		t.Errorf("another key: %v", err)
	}
	if _, err := bundle.Verify(public); err == nil {
		t.Error("a payload that is no model's statement is taken for one")
	}
}
