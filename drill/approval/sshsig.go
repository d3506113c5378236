package approval

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"drkit/drill/ledger"
)

// Namespace keeps a signature that was made for something else from being taken
// for an approval (ssh-keygen -n).
const Namespace = "drkit-approval"

// magic begins both the signed text and the signature (OpenSSH, PROTOCOL.sshsig).
const (
	magic  = "SSHSIG"
	armour = "SSH SIGNATURE"
)

// blob is a signature without its magic.
type blob struct {
	Version                                   uint32
	Key, Namespace, Reserved, Hash, Signature string
}

// signedText is what the key signs, without the magic.
type signedText struct {
	Namespace, Reserved, Hash, Digest string
}

// sign makes an armoured SSHSIG of a message.
func sign(message []byte, key ssh.Signer) (string, error) {
	if err := strong(key.PublicKey()); err != nil {
		return "", err
	}
	digest := sha512.Sum512(message)
	text := append([]byte(magic), ssh.Marshal(signedText{Namespace: Namespace, Hash: "sha512", Digest: string(digest[:])})...)
	sig, err := signBytes(key, text)
	if err != nil {
		return "", err
	}
	b := blob{Version: 1, Key: string(key.PublicKey().Marshal()), Namespace: Namespace, Hash: "sha512", Signature: string(ssh.Marshal(sig))}
	return wrap(append([]byte(magic), ssh.Marshal(b)...)), nil
}

func signBytes(key ssh.Signer, text []byte) (*ssh.Signature, error) {
	if key.PublicKey().Type() != ssh.KeyAlgoRSA {
		return key.Sign(rand.Reader, text)
	}
	s, ok := key.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("this RSA key signs with SHA-1 only")
	}
	return s.SignWithAlgorithm(rand.Reader, text, ssh.KeyAlgoRSASHA512)
}

// wrap writes the armour with lines of 70 signs, as ssh-keygen does.
func wrap(raw []byte) string {
	text := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	b.WriteString("-----BEGIN " + armour + "-----\n")
	for line := range slices.Chunk([]byte(text), 70) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END " + armour + "-----\n")
	return b.String()
}

// unwrap reads an armoured signature and the key that it says it is of.
func unwrap(text string) (b blob, key ssh.PublicKey, err error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != armour || strings.TrimSpace(string(rest)) != "" {
		return b, nil, errors.New("it is no signature of ssh-keygen -Y sign")
	}
	raw, ok := strings.CutPrefix(string(block.Bytes), magic)
	if !ok {
		return b, nil, errors.New("it is no SSHSIG")
	}
	if err := ssh.Unmarshal([]byte(raw), &b); err != nil {
		return b, nil, fmt.Errorf("the signature is malformed: %w", err)
	}
	if b.Version != 1 {
		return b, nil, fmt.Errorf("the signature has version %d, known is 1", b.Version)
	}
	key, err = ssh.ParsePublicKey([]byte(b.Key))
	if err != nil {
		return b, nil, fmt.Errorf("the signature's key is malformed: %w", err)
	}
	return b, key, nil
}

// keyOf is the key that a signature says it is of, on one line.
func keyOf(signature string) (string, error) {
	_, key, err := unwrap(signature)
	if err != nil {
		return "", usage(err, "make it with: ssh-keygen -Y sign -n "+Namespace+" -f KEY STATEMENT")
	}
	return line(key), nil
}

// Proven verifies an approval's signature and returns the key that made it. That
// the key is anybody's in particular only a Policy can say.
func Proven(a ledger.Approved) (ssh.PublicKey, error) {
	message, err := a.Statement.Bytes()
	if err != nil {
		return nil, err
	}
	return proven(message, a.Key, a.Signature)
}

// proven verifies that a signature is of a message and of the key on that line.
func proven(message []byte, of, signature string) (ssh.PublicKey, error) {
	b, key, err := unwrap(signature)
	if err != nil {
		return nil, err
	}
	if err := strong(key); err != nil {
		return nil, err
	}
	switch {
	case line(key) != of:
		return nil, errors.New("the signature is of another key than the record says")
	case b.Namespace != Namespace:
		return nil, fmt.Errorf("it was signed for %.40q, not for %s", b.Namespace, Namespace)
	}
	digest, err := sum(b.Hash, message)
	if err != nil {
		return nil, err
	}
	var sig ssh.Signature
	if err := ssh.Unmarshal([]byte(b.Signature), &sig); err != nil {
		return nil, fmt.Errorf("the signature is malformed: %w", err)
	}
	if sig.Format == ssh.KeyAlgoRSA {
		return nil, errors.New("it was signed with SHA-1")
	}
	text := append([]byte(magic), ssh.Marshal(signedText{b.Namespace, b.Reserved, b.Hash, string(digest)})...)
	if key.Verify(text, &sig) != nil {
		return nil, errors.New("the signature is broken: it is not of these bytes")
	}
	return key, nil
}

func sum(hash string, message []byte) ([]byte, error) {
	switch hash {
	case "sha512":
		s := sha512.Sum512(message)
		return s[:], nil
	case "sha256":
		s := sha256.Sum256(message)
		return s[:], nil
	}
	return nil, fmt.Errorf("the signature hashes with %.20q, known are sha256 and sha512", hash)
}

// strong refuses kinds of keys that prove nothing any more.
func strong(key ssh.PublicKey) error {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		if k, ok := key.(ssh.CryptoPublicKey); ok {
			if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() >= 2048 {
				return nil
			}
		}
		return errors.New("an RSA key of fewer than 2048 bits proves nothing")
	}
	return fmt.Errorf("keys of the kind %.40q are not supported", key.Type())
}
