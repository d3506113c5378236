package oms

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"drkit/internal/errext"
)

// SignPayload makes the bundle of any in-toto statement, such as the evidence of a
// drill: the envelope and the keys are those of a model's signature. The same
// payload and key give the same bytes.
func SignPayload(payload []byte, key crypto.Signer) ([]byte, error) {
	sig, err := signBytes(key, preAuth(payload))
	if err != nil {
		return nil, fmt.Errorf("signing the statement: %w", err)
	}
	hint, err := Fingerprint(key.Public())
	if err != nil {
		return nil, err
	}
	b := bundleJSON{MediaType: mediaType,
		Verification: materialJSON{PublicKey: &publicKeyJSON{hint}, Transparency: []json.RawMessage{}},
		Envelope: envelopeJSON{Payload: base64.StdEncoding.EncodeToString(payload), PayloadType: payloadType,
			Signatures: []signatureJSON{{Sig: base64.StdEncoding.EncodeToString(sig)}}}}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("encoding the signature: %w", err)
	}
	return out.Bytes(), nil
}

// Open proves that the key signed the payload, whatever statement it is, and
// returns it. The error has the status Evidence.
func (b *Bundle) Open(public crypto.PublicKey) ([]byte, error) {
	if err := b.prove(public); err != nil {
		return nil, evidence("verifying", err)
	}
	return b.payload, nil
}

// prove checks key and signature; the payload is not looked at.
func (b *Bundle) prove(public crypto.PublicKey) error {
	print, err := Fingerprint(public)
	if err != nil {
		return err
	}
	if b.Hint != "" && b.Hint != print {
		return errext.WithHint(fmt.Errorf("%w: it names the key %.80s, and the given one is %s", ErrKeyMismatch, b.Hint, print),
			"give the public key of the signer")
	}
	if !verifyBytes(public, preAuth(b.payload), b.signature) {
		return errext.WithHint(ErrInvalid, "the signature file was changed or is damaged, or another key made it: fetch it again from the signer")
	}
	return nil
}
