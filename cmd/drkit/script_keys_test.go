package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// key FILE: makes an Ed25519 key: FILE is its PEM, FILE.ssh OpenSSH's form of the
// same one, FILE.pub its public half on one line.
func cmdKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: key FILE")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	ts.Check(err)
	line, err := ssh.NewPublicKey(public)
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	ts.Check(os.WriteFile(path+".ssh", pem.EncodeToMemory(block), 0o600))
	ts.Check(os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(line), 0o644))
	der, err = x509.MarshalPKIXPublicKey(public)
	ts.Check(err)
	ts.Check(os.WriteFile(path+".pub.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
}
