package approval

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"drkit/internal/errext"
	"drkit/manifest/oms"
)

const kindsHint = "known are Ed25519, ECDSA and RSA keys as ssh writes them, and Ed25519 or ECDSA as PEM"

// PublicKey reads one public key: a line as ssh writes it, or PEM.
func PublicKey(text []byte) (ssh.PublicKey, error) {
	key, err := readPublic(text)
	if err == nil {
		err = strong(key)
	}
	if err != nil && errext.Hint(err) == "" {
		err = errext.WithHint(err, kindsHint)
	}
	return key, err
}

func readPublic(text []byte) (ssh.PublicKey, error) {
	if bytes.Contains(text, []byte("-----BEGIN")) {
		key, err := oms.PublicKey(text)
		if err != nil {
			return nil, err
		}
		return ssh.NewPublicKey(key)
	}
	key, _, _, rest, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, errors.New("it holds no public key")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it holds more than one key")
	}
	return key, nil
}

// PrivateKey reads a private key: OpenSSH's own form or PEM. One that is encrypted
// needs the password. No error quotes the key.
func PrivateKey(text, password []byte) (ssh.Signer, error) {
	if !bytes.Contains(text, []byte("BEGIN OPENSSH PRIVATE KEY")) {
		key, err := oms.PrivateKey(text, password)
		if errors.Is(err, oms.ErrPublic) {
			return nil, errext.WithHint(oms.ErrPublic, "give the private one, or sign with ssh-keygen -Y sign what --statement-out writes")
		}
		if err != nil {
			return nil, err
		}
		return ssh.NewSignerFromSigner(key)
	}
	if len(password) > 0 {
		key, err := ssh.ParsePrivateKeyWithPassphrase(text, password)
		if err == nil {
			return key, nil
		}
	}
	key, err := ssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errext.WithHint(fmt.Errorf("%w, and its password was not given or is another one", oms.ErrPassword), "name the variable that holds it with --password-env, or sign with ssh-keygen -Y sign and give --signature")
	}
	if err != nil {
		return nil, errext.WithHint(errors.New("the private key cannot be read"), kindsHint)
	}
	return key, nil
}

// line is a public key on one line, without a comment.
func line(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// ID is a key's name for people: what ssh-keygen -l prints.
func ID(key ssh.PublicKey) string { return ssh.FingerprintSHA256(key) }
