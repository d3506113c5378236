//go:build linux

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs every certificate of the cluster. Its files lie in one folder, NAME.crt and NAME.key.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64 // serial number
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key, next: 1}
	template := a.template("test-ca", nil)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write("ca", der, key)
}

func (a *authority) template(name string, groups []string) *x509.Certificate {
	serial := a.next
	a.next++
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue writes file.crt and file.key for a client of that name and groups, and a server at the addresses.
func (a *authority) issue(file, name string, groups []string, addresses ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := a.template(name, groups)
	for _, at := range addresses {
		if ip := net.ParseIP(at); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, at)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.write(file, der, key)
}

func (a *authority) write(file string, der []byte, key *ecdsa.PrivateKey) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	for _, f := range []struct {
		suffix, kind string
		data         []byte
	}{{".crt", "CERTIFICATE", der}, {".key", "PRIVATE KEY", private}, {".pub", "PUBLIC KEY", public}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.data})
		if err := os.WriteFile(filepath.Join(a.dir, file+f.suffix), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a *authority) crt(file string) string { return filepath.Join(a.dir, file+".crt") }
func (a *authority) private(file string) string {
	return filepath.Join(a.dir, file+".key")
}
func (a *authority) public(file string) string { return filepath.Join(a.dir, file+".pub") }

// server is a TLS side that only takes clients of this authority.
func (a *authority) server(file string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(a.crt(file), a.private(file))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
}
