package oms

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"drkit/internal/errext"
)

// ErrPassword is a private key that is encrypted while no password was given,
// or another than the one that opens it.
var ErrPassword = errors.New("the private key is encrypted")

// ErrPublic is a public key in the place of a private one.
var ErrPublic = errors.New("it is a public key")

// PrivateKey reads a private key from PEM text: PKCS #8 or SEC 1, ECDSA on P-256,
// P-384 or P-521, or Ed25519. A PKCS #8 key that is encrypted needs the password.
// No error quotes the key.
func PrivateKey(text, password []byte) (crypto.Signer, error) {
	key, err := readPrivate(text, password)
	return key, hinted(err)
}

// kinds ends every error of a key that has no better hint.
const kinds = "known are ECDSA on P-256, P-384 and P-521, and Ed25519, as PEM text"

func hinted(err error) error {
	if err == nil || errext.Hint(err) != "" {
		return err
	}
	return errext.WithHint(err, kinds)
}

func readPrivate(text, password []byte) (crypto.Signer, error) {
	block := firstKey(text)
	if block == nil && publicLine(text) {
		return nil, errext.WithHint(ErrPublic, publicHint)
	}
	if block == nil {
		return nil, errext.WithHint(errors.New("it holds no PEM text of a key"), "make one with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem")
	}
	key, err := privateKey(block, password)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, unsupportedKey(key)
	}
	if err := supported(signer.Public()); err != nil {
		return nil, err
	}
	return signer, nil
}

const publicHint = "signing needs the private key, verifying the public one"

// publicLine tells a public key on one line, as ssh writes it: its kind, and the base64
// of a string whose length is written in four bytes, the first three of them zero (RFC 4253, section 6.6).
func publicLine(text []byte) bool {
	fields := bytes.Fields(text)
	if len(fields) < 2 || !bytes.HasPrefix(fields[1], []byte("AAAA")) {
		return false
	}
	for _, kind := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"} {
		if bytes.HasPrefix(fields[0], []byte(kind)) {
			return true
		}
	}
	return false
}

// firstKey skips the curve parameters that openssl ecparam writes before a key.
func firstKey(text []byte) *pem.Block {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || block.Type != "EC PARAMETERS" {
			return block
		}
	}
}

func privateKey(block *pem.Block, password []byte) (any, error) {
	switch {
	case block.Type == "PRIVATE KEY":
		return parsed(x509.ParsePKCS8PrivateKey(block.Bytes))
	case block.Type == "ENCRYPTED PRIVATE KEY":
		plain, err := decryptPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return parsed(x509.ParsePKCS8PrivateKey(plain))
	case block.Type == "EC PRIVATE KEY" && block.Headers["DEK-Info"] != "":
		return nil, errext.WithHint(fmt.Errorf("%w in OpenSSL's old form, which does not protect it well", ErrPassword), "convert it with: openssl pkcs8 -topk8 -in OLD.pem -out NEW.pem")
	case block.Type == "EC PRIVATE KEY":
		return parsed(x509.ParseECPrivateKey(block.Bytes))
	case block.Type == "OPENSSH PRIVATE KEY":
		return nil, errext.WithHint(errors.New("it is a key in the form of OpenSSH"), "convert a copy with: ssh-keygen -p -m PKCS8 -f COPY")
	case block.Type == "PUBLIC KEY":
		return nil, errext.WithHint(ErrPublic, publicHint)
	}
	return nil, fmt.Errorf("it is PEM text of the kind %.40q, want PRIVATE KEY (PKCS #8) or EC PRIVATE KEY (SEC 1)", block.Type)
}

func parsed[K any](key K, err error) (any, error) {
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %w", err)
	}
	return key, nil
}

// PublicKey reads a public key from PEM text.
func PublicKey(text []byte) (crypto.PublicKey, error) {
	key, err := readPublic(text)
	return key, hinted(err)
}

func readPublic(text []byte) (crypto.PublicKey, error) {
	block := firstKey(text)
	switch {
	case block == nil:
		return nil, errors.New("it holds no PEM text of a key")
	case block.Type == "CERTIFICATE":
		return nil, errext.WithHint(errors.New("it is a certificate"), "take its key out with: openssl x509 -pubkey -noout -in CERTIFICATE")
	case block.Type != "PUBLIC KEY":
		return nil, errext.WithHint(fmt.Errorf("it is PEM text of the kind %.40q, want PUBLIC KEY", block.Type), "make it from the private key with: openssl pkey -in KEY -pubout")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the public key cannot be read: %w", err)
	}
	if err := supported(key); err != nil {
		return nil, err
	}
	return key, nil
}

func supported(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if hashOf(k) != 0 {
			return nil
		}
		return fmt.Errorf("ECDSA on the curve %s is not supported", k.Params().Name)
	case ed25519.PublicKey:
		return nil
	}
	return unsupportedKey(key)
}

func unsupportedKey(key any) error {
	return fmt.Errorf("keys of the kind %T are not supported", key)
}

// KeyName says what kind of key it is.
func KeyName(key crypto.PublicKey) string {
	if k, ok := key.(*ecdsa.PublicKey); ok {
		return "ECDSA " + k.Params().Name
	}
	return "Ed25519"
}

// hashOf is the hash that belongs to the curve, 0 for an unknown one.
func hashOf(k *ecdsa.PublicKey) crypto.Hash {
	switch k.Curve {
	case elliptic.P256():
		return crypto.SHA256
	case elliptic.P384():
		return crypto.SHA384
	case elliptic.P521():
		return crypto.SHA512
	}
	return 0
}

// Fingerprint is the hint of a bundle: the SHA-256 of the public key as PEM text,
// in hexadecimal.
func Fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return hex.EncodeToString(sum[:]), nil
}

// signBytes makes an ECDSA signature in ASN.1 with the nonce of RFC 6979, or an
// Ed25519 one: both give equal bytes for equal input.
func signBytes(key crypto.Signer, message []byte) ([]byte, error) {
	if public, ok := key.Public().(*ecdsa.PublicKey); ok {
		h := hashOf(public)
		return key.Sign(nil, sum(h, message), h)
	}
	return key.Sign(nil, message, crypto.Hash(0))
}

func verifyBytes(key crypto.PublicKey, message, sig []byte) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		h := hashOf(k)
		return h != 0 && ecdsa.VerifyASN1(k, sum(h, message), sig)
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, sig)
	}
	return false
}

func sum(h crypto.Hash, message []byte) []byte {
	w := h.New()
	w.Write(message)
	return w.Sum(nil)
}
