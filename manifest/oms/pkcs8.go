package oms

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"drkit/internal/errext"
)

// The scheme of encrypted PKCS #8 keys (RFC 8018, PBES2) as OpenSSL 1.1 and 3
// write it: PBKDF2 with an HMAC, then AES in CBC mode.
var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	hmacs     = map[string]func() hash.Hash{
		"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.11": sha512.New,
	}
	aesKeyLength = map[string]int{ // bytes
		"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32,
	}
)

// maxIterations bounds the work that a key file can ask for: some seconds.
const maxIterations = 10_000_000

type encryptedKey struct {
	Scheme pkix.AlgorithmIdentifier
	Data   []byte
}

type pbes2 struct{ Derivation, Cipher pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	HMAC       pkix.AlgorithmIdentifier `asn1:"optional"`
}

// decryptPKCS8 opens an encrypted key. A wrong password is ErrPassword.
func decryptPKCS8(der, password []byte) ([]byte, error) {
	if len(password) == 0 {
		return nil, errext.WithHint(ErrPassword, "name the environment variable that holds its password with --password-env")
	}
	var k encryptedKey
	var scheme pbes2
	if err := errors.Join(unmarshal(der, &k), unmarshal(k.Scheme.Parameters.FullBytes, &scheme)); err != nil || !k.Scheme.Algorithm.Equal(oidPBES2) {
		return nil, reencrypt(fmt.Errorf("the encrypted private key has the scheme %v, want PBES2", k.Scheme.Algorithm))
	}
	block, err := deriveCipher(scheme, password)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if err := unmarshal(scheme.Cipher.Parameters.FullBytes, &iv); err != nil || len(iv) != aes.BlockSize || len(k.Data) == 0 || len(k.Data)%aes.BlockSize != 0 {
		return nil, errors.New("the encrypted private key is damaged")
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(k.Data, k.Data)
	return unpad(k.Data)
}

func deriveCipher(scheme pbes2, password []byte) (cipher.Block, error) {
	var p pbkdf2Params
	if err := unmarshal(scheme.Derivation.Parameters.FullBytes, &p); err != nil || !scheme.Derivation.Algorithm.Equal(oidPBKDF2) {
		return nil, reencrypt(fmt.Errorf("the key derivation %v of the encrypted private key is not supported", scheme.Derivation.Algorithm))
	}
	mac, length := sha1.New, aesKeyLength[scheme.Cipher.Algorithm.String()] // HMAC-SHA-1 is the default of RFC 8018
	if p.HMAC.Algorithm != nil {
		mac = hmacs[p.HMAC.Algorithm.String()]
	}
	switch {
	case mac == nil || length == 0:
		return nil, reencrypt(fmt.Errorf("the cipher %v or the HMAC %v of the encrypted private key is not supported", scheme.Cipher.Algorithm, p.HMAC.Algorithm))
	case p.Iterations < 1 || p.Iterations > maxIterations:
		return nil, fmt.Errorf("the encrypted private key asks for %d rounds, at most %d are done", p.Iterations, maxIterations)
	}
	derived, err := pbkdf2.Key(mac, string(password), p.Salt, p.Iterations, length)
	if err != nil {
		return nil, fmt.Errorf("opening the encrypted private key: %w", err)
	}
	return aes.NewCipher(derived)
}

func reencrypt(err error) error {
	return errext.WithHint(err, "write it anew with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD.pem -out NEW.pem")
}

// unmarshal reads one whole ASN.1 value.
func unmarshal(der []byte, to any) error {
	rest, err := asn1.Unmarshal(der, to)
	if err == nil && len(rest) > 0 {
		err = errors.New("bytes after the end")
	}
	return err
}

// unpad takes the padding of PKCS #7 off. Another password leaves none.
func unpad(plain []byte) ([]byte, error) {
	n := int(plain[len(plain)-1])
	if n == 0 || n > aes.BlockSize || n > len(plain) {
		return nil, wrongPassword()
	}
	for _, b := range plain[len(plain)-n:] {
		if int(b) != n {
			return nil, wrongPassword()
		}
	}
	return plain[:len(plain)-n], nil
}

func wrongPassword() error {
	return errext.WithHint(fmt.Errorf("%w, and the given password does not open it", ErrPassword), "see that the variable of --password-env holds the password of this key")
}
