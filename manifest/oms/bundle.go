package oms

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"drkit/internal/errext"
)

// Bundle is a signature that was read and not yet verified.
type Bundle struct {
	Hint      string // SHA-256 of the public key that made it, see Fingerprint; empty: not said
	payload   []byte
	signature []byte
}

// The Sigstore bundle as JSON. The other kinds of verification material are read
// only to say what they are.
type bundleJSON struct {
	MediaType    string       `json:"mediaType"`
	Verification materialJSON `json:"verificationMaterial"`
	Envelope     envelopeJSON `json:"dsseEnvelope"`
}

type materialJSON struct {
	PublicKey    *publicKeyJSON    `json:"publicKey,omitempty"`
	Certificate  json.RawMessage   `json:"certificate,omitempty"`
	Chain        json.RawMessage   `json:"x509CertificateChain,omitempty"`
	Transparency []json.RawMessage `json:"tlogEntries"`
}

type publicKeyJSON struct {
	Hint string `json:"hint"`
}

type envelopeJSON struct {
	Payload     string          `json:"payload"`
	PayloadType string          `json:"payloadType"`
	Signatures  []signatureJSON `json:"signatures"`
}

type signatureJSON struct {
	Sig   string `json:"sig"`
	KeyID string `json:"keyid"`
}

// Sign makes the bundle of a statement: two-space JSON with a final newline. The
// same statement and key give the same bytes.
func Sign(s *Statement, key crypto.Signer) ([]byte, error) {
	payload, err := s.Encode()
	if err != nil {
		return nil, err
	}
	return SignPayload(payload, key)
}

// preAuth is what DSSE signs: the payload with its type and length in front.
func preAuth(payload []byte) []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload)), payload...)
}

// ReadBundle reads a signature file. It proves nothing yet.
func ReadBundle(data []byte) (*Bundle, error) {
	b, err := readBundle(data)
	if err != nil {
		return nil, evidence("reading", err)
	}
	return b, nil
}

// evidence is an error about the signature itself.
func evidence(doing string, err error) error {
	if errext.Hint(err) == "" {
		err = errext.WithHint(err, "fetch the signature again from the signer, or sign the model anew")
	}
	return errext.WithStatus(fmt.Errorf("%s the signature: %w", doing, err), errext.Evidence)
}

func readBundle(data []byte) (*Bundle, error) {
	var j bundleJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, errext.WithHint(fmt.Errorf("it is no Sigstore bundle: %w", err), "name the .sig file that model_signing or drkit manifest sign wrote")
	}
	switch {
	case j.MediaType != mediaType:
		return nil, fmt.Errorf("its media type is %.80q, want %s", j.MediaType, mediaType)
	case j.Verification.Certificate != nil || j.Verification.Chain != nil:
		return nil, errext.WithHint(errors.New("it was made with a certificate or a Sigstore identity, and only signatures of a local key are verified here"),
			"verify it with model_signing verify certificate, or verify sigstore")
	case j.Envelope.PayloadType != payloadType:
		return nil, fmt.Errorf("its payload has the type %.80q, want %s", j.Envelope.PayloadType, payloadType)
	case len(j.Envelope.Signatures) != 1:
		return nil, fmt.Errorf("it holds %d signatures, want one", len(j.Envelope.Signatures))
	}
	b := &Bundle{}
	if j.Verification.PublicKey != nil {
		b.Hint = j.Verification.PublicKey.Hint
	}
	var errPayload, errSig error
	b.payload, errPayload = base64.StdEncoding.DecodeString(j.Envelope.Payload)
	b.signature, errSig = base64.StdEncoding.DecodeString(j.Envelope.Signatures[0].Sig)
	if err := errors.Join(errPayload, errSig); err != nil {
		return nil, fmt.Errorf("its payload or signature is not base64: %w", err)
	}
	return b, nil
}

// ErrKeyMismatch is a signature that another key made.
var ErrKeyMismatch = errors.New("another key made the signature")

// ErrInvalid is a signature that does not belong to the payload.
var ErrInvalid = errors.New("the signature does not belong to the signed statement")

// Verify proves that the key signed the statement, and returns it. The error has
// the status Evidence: what it says about a model is then worth nothing.
func (b *Bundle) Verify(public crypto.PublicKey) (*Statement, error) {
	s, err := b.verify(public)
	if err != nil {
		return nil, evidence("verifying", err)
	}
	return s, nil
}

func (b *Bundle) verify(public crypto.PublicKey) (*Statement, error) {
	if err := b.prove(public); err != nil {
		return nil, err
	}
	return decode(b.payload)
}

// Unverified returns the statement without proving that anybody signed it: a claim
// that whoever writes the file can make.
func (b *Bundle) Unverified() (*Statement, error) {
	s, err := decode(b.payload)
	if err != nil {
		return nil, evidence("reading", err)
	}
	return s, nil
}
