package approval

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/store/mem"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	plan = strings.Repeat("ab", 32)
)

// id is a ULID by its number.
func id(n int) string { return fmt.Sprintf("%026d", n) }

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// desk is a ledger with three people who may approve.
type desk struct {
	t        *testing.T
	chain    *ledger.Chain
	mei, ada ssh.Signer
	kim      ssh.Signer // the operator
	policy   Policy
	next     int
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, chain: ledger.NewChain(mem.New(), "mem", nil), mei: newKey(t), ada: newKey(t), kim: newKey(t), next: 100}
	d.policy = Policy{Required: 2, People: []Person{{"mei", "mei", d.mei.PublicKey()}, {"ada", "ada", d.ada.PublicKey()}, {"kim", "kim", d.kim.PublicKey()}}}
	return d
}

func (d *desk) statement(who string) ledger.Statement {
	d.next++
	return ledger.Statement{Schema: ledger.StatementSchema, ID: id(d.next), Service: "support", PlanHash: plan, Approver: who, ChangeRef: "CHG-7", At: noon, Expires: noon.Add(time.Hour)}
}

func (d *desk) give(s ledger.Statement, key ssh.Signer) ledger.Entry {
	d.t.Helper()
	e, err := Give(d.t.Context(), d.chain, s, key, s.Approver+"@desk")
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

func (d *desk) opened(run string) {
	d.t.Helper()
	if _, err := d.chain.Append(d.t.Context(), ledger.Record{Kind: ledger.KindOpened, Run: run, At: noon, By: "kim@laptop", Opened: &ledger.Opened{Service: "support", PlanHash: plan}}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) judge(run string) Tally {
	d.t.Helper()
	scan, err := d.chain.Scan(d.t.Context())
	if err != nil || len(scan.Faults) > 0 {
		d.t.Fatal(err, scan.Faults)
	}
	return Judge(scan, d.policy, Subject{Service: "support", PlanHash: plan, Run: run, By: "kim@laptop", Now: noon.Add(time.Minute)})
}

// why is the reason of the only void approval, "" when all count.
func why(t *testing.T, tally Tally) string {
	t.Helper()
	if len(tally.Void) > 1 {
		t.Fatalf("%+v", tally.Void)
	}
	for _, a := range tally.Void {
		return a.Why
	}
	return ""
}

// TestBoundToItsLedger: an approval counts after the record that it names, and not before.
func TestBoundToItsLedger(t *testing.T) {
	d := newDesk(t)
	d.policy.Required = 1
	d.opened(id(9))
	scan, err := d.chain.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := d.statement("mei")
	s.After = scan.Head().SHA256
	e := d.give(s, d.mei)
	if got := d.judge(""); !got.Enough() {
		t.Errorf("%+v", got)
	}
	other := newDesk(t)
	other.policy = d.policy
	if _, err := Put(t.Context(), other.chain, s, e.Approved.Signature, "kim@laptop"); err != nil {
		t.Fatal(err)
	}
	if got := other.judge(""); got.Enough() || !strings.Contains(why(t, got), "it was given in another ledger") {
		t.Errorf("carried into another ledger: %+v", got)
	}
}

func TestEnough(t *testing.T) {
	d := newDesk(t)
	d.give(d.statement("mei"), d.mei)
	if got := d.judge(""); got.Enough() || len(got.Valid) != 1 {
		t.Errorf("one of two: %+v", got)
	}
	d.give(d.statement("ada"), d.ada)
	got := d.judge("")
	if !got.Enough() || len(got.Void) != 0 {
		t.Fatalf("two of two: %+v", got)
	}
	a := got.Valid[0]
	if a.Approver != "mei" || a.Method != "ssh-ed25519" || a.KeyID != ssh.FingerprintSHA256(d.mei.PublicKey()) || a.Self || a.ChangeRef != "CHG-7" || a.Record != 1 {
		t.Errorf("%+v", a)
	}
}

// TestVoid: each of these counts nothing, and says why.
func TestVoid(t *testing.T) {
	for name, c := range map[string]struct {
		make func(d *desk)
		want string
	}{
		"another plan, this run": {func(d *desk) {
			d.opened(id(1))
			s := d.statement("mei")
			s.PlanHash, s.Run = strings.Repeat("cd", 32), id(1)
			d.give(s, d.mei)
		}, "it approves another plan (cdcdcdcdcdcd)"},
		"expired": {func(d *desk) {
			s := d.statement("mei")
			s.Expires = noon.Add(time.Minute)
			d.give(s, d.mei)
		}, "it expired at 2026-03-04T12:01:00Z"},
		"dated next year": {func(d *desk) {
			s := d.statement("mei")
			s.At = noon.AddDate(1, 0, 0)
			s.Expires = s.At.Add(time.Hour)
			d.give(s, d.mei)
		}, "which is not yet"},
		"unknown key":    {func(d *desk) { d.give(d.statement("mei"), newKey(d.t)) }, "drkit.yaml does not know its key"},
		"another's name": {func(d *desk) { d.give(d.statement("mei"), d.ada) }, "it is of mei, and signed with the key of ada"},
		"another service": {func(d *desk) {
			s := d.statement("mei")
			s.Service = "billing"
			d.give(s, d.mei)
		}, "it is of service billing"},
		"another run": {func(d *desk) {
			s := d.statement("mei")
			s.Run = id(2)
			d.give(s, d.mei)
		}, "it is for run " + id(2)},
		"taken by an earlier run": {func(d *desk) { d.give(d.statement("mei"), d.mei); d.opened(id(3)) }, "run " + id(3) + " took it"},
		"after the run began":     {func(d *desk) { d.opened(id(1)); d.give(d.statement("mei"), d.mei) }, "does not name it"},
		"twice the same person": {func(d *desk) { d.give(d.statement("mei"), d.mei); d.give(d.statement("mei"), d.mei) },
			"mei approved already, in record 1"},
		"of another ledger": {func(d *desk) {
			s := d.statement("mei")
			s.After = strings.Repeat("ef", 32)
			d.give(s, d.mei)
		}, "it was given in another ledger, after a record (efefefefefef) that this one does not have"},
		"replayed": {func(d *desk) {
			s := d.statement("mei")
			d.give(s, d.mei)
			d.give(s, d.mei)
		}, "it is record 1 again: replayed"},
		"the operator's own": {func(d *desk) { d.give(d.statement("kim"), d.kim) }, "approvals.self refuses"},
		"from the operator's account": {func(d *desk) {
			if _, err := Give(d.t.Context(), d.chain, d.statement("mei"), d.mei, "kim@elsewhere"); err != nil {
				d.t.Fatal(err)
			}
		}, "approvals.self refuses"},
		"said to be the operator's own": {func(d *desk) {
			s := d.statement("mei")
			s.Self = true
			d.give(s, d.mei)
		}, "approvals.self refuses"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			c.make(d)
			got := d.judge(id(1))
			if got.Enough() || !strings.Contains(why(t, got), c.want) {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

// TestReplayOfSpent: an approval that a run took is appended again; it stays spent.
func TestReplayOfSpent(t *testing.T) {
	d := newDesk(t)
	e := d.give(d.statement("mei"), d.mei)
	d.opened(id(1))
	if got := d.judge(id(1)); len(got.Valid) != 1 {
		t.Fatalf("the first run: %+v", got)
	}
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindApproved, At: noon, By: "mallory@x", Approved: e.Approved}); err != nil {
		t.Fatal(err)
	}
	if got := d.judge(id(2)); len(got.Valid) != 0 || len(got.Void) != 1 && len(got.Void) != 2 {
		t.Errorf("a second run: %+v", got)
	}
}

// TestRefusedRunTakesNothing: a run that was refused before it changed anything leaves
// the approval to the next.
func TestRefusedRunTakesNothing(t *testing.T) {
	d := newDesk(t)
	d.give(d.statement("mei"), d.mei)
	d.opened(id(1))
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindClosed, Run: id(1), At: noon, By: "kim@laptop", Closed: &ledger.Closed{Verdict: drill.Refused, Status: 3}}); err != nil {
		t.Fatal(err)
	}
	d.opened(id(2))
	if got := d.judge(id(2)); len(got.Valid) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestSelfIsLabelled: where self-approval counts, it still says what it is.
func TestSelfIsLabelled(t *testing.T) {
	d := newDesk(t)
	d.policy.Self, d.policy.Required = true, 1
	d.give(d.statement("kim"), d.kim)
	if got := d.judge(""); !got.Enough() || !got.Valid[0].Self {
		t.Errorf("%+v", got)
	}
}

// TestBroken: any change of a signed statement, of its key or of its signature is seen.
func TestBroken(t *testing.T) {
	d := newDesk(t)
	good := *d.give(d.statement("mei"), d.mei).Approved
	if _, err := Proven(good); err != nil {
		t.Fatal(err)
	}
	other, err := sign([]byte("something else\n"), d.mei)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(a *ledger.Approved){
		"plan":              func(a *ledger.Approved) { a.Statement.PlanHash = strings.Repeat("cd", 32) },
		"run":               func(a *ledger.Approved) { a.Statement.Run = id(9) },
		"approver":          func(a *ledger.Approved) { a.Statement.Approver = "ada" },
		"expiry":            func(a *ledger.Approved) { a.Statement.Expires = noon.Add(1000 * time.Hour) },
		"self":              func(a *ledger.Approved) { a.Statement.Self = true },
		"another message":   func(a *ledger.Approved) { a.Signature = other },
		"another key":       func(a *ledger.Approved) { a.Key = line(d.ada.PublicKey()) },
		"another namespace": func(a *ledger.Approved) { a.Signature = resigned(t, a.Statement, d.mei, "file") },
		"no signature":      func(a *ledger.Approved) { a.Signature = "" },
		"half a signature":  func(a *ledger.Approved) { a.Signature = a.Signature[:80] + "\n-----END SSH SIGNATURE-----\n" },
	} {
		a := good
		change(&a)
		if _, err := Proven(a); err == nil {
			t.Errorf("%s: it still holds", name)
		}
	}
}

// resigned is a sound signature for another purpose.
func resigned(t *testing.T, s ledger.Statement, key ssh.Signer, namespace string) string {
	t.Helper()
	raw, _ := s.Bytes()
	digest, _ := sum("sha512", raw)
	sig, err := key.Sign(rand.Reader, append([]byte(magic), ssh.Marshal(signedText{Namespace: namespace, Hash: "sha512", Digest: string(digest)})...))
	if err != nil {
		t.Fatal(err)
	}
	return wrap(append([]byte(magic), ssh.Marshal(blob{Version: 1, Key: string(key.PublicKey().Marshal()), Namespace: namespace, Hash: "sha512", Signature: string(ssh.Marshal(sig))})...))
}

// TestLedgerRefusesBroken: what is not proven never reaches the ledger.
func TestLedgerRefusesBroken(t *testing.T) {
	d := newDesk(t)
	if _, err := Put(t.Context(), d.chain, d.statement("mei"), "nonsense", "mei@desk"); errext.StatusOf(err) != errext.Usage {
		t.Errorf("%v", err)
	}
	signature := resigned(t, d.statement("mei"), d.mei, Namespace)
	if _, err := Put(t.Context(), d.chain, d.statement("mei"), signature, "mei@desk"); err == nil {
		t.Error("a signature of another statement is taken")
	}
	if scan, err := d.chain.Scan(t.Context()); err != nil || len(scan.Entries) != 0 {
		t.Errorf("%v %+v", err, scan)
	}
}

// TestSSHKeygen: OpenSSH proves what drkit signs, and drkit what OpenSSH signs, for
// each kind of key.
func TestSSHKeygen(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	for kind, bits := range map[string]string{"ed25519": "256", "ecdsa": "384", "rsa": "2048"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d, dir := newDesk(t), t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			keygen(t, "", "-q", "-t", kind, "-b", bits, "-N", "", "-C", "mei", "-f", at("key"))
			signer, err := PrivateKey(read(t, at("key")), nil)
			if err != nil {
				t.Fatal(err)
			}
			public, err := PublicKey(read(t, at("key.pub")))
			if err != nil {
				t.Fatal(err)
			}
			d.policy.People[0].Key = public
			e := d.give(d.statement("mei"), signer)
			raw, err := e.Approved.Statement.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			write(t, at("sig"), e.Approved.Signature)
			write(t, at("allowed"), "mei "+string(read(t, at("key.pub"))))
			keygen(t, string(raw), "-Y", "verify", "-f", at("allowed"), "-I", "mei", "-n", Namespace, "-s", at("sig"))

			s := d.statement("mei")
			raw, err = s.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			write(t, at("statement"), string(raw))
			keygen(t, "", "-q", "-Y", "sign", "-f", at("key"), "-n", Namespace, at("statement"))
			if _, err := Put(t.Context(), d.chain, s, string(read(t, at("statement.sig"))), "mei@desk"); err != nil {
				t.Error(err)
			}
			if got := d.judge(""); len(got.Valid) != 1 || !strings.Contains(why(t, got), "approved already") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func keygen(t *testing.T, stdin string, args ...string) {
	t.Helper()
	c := exec.Command("ssh-keygen", args...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeys: PEM and OpenSSH keys are the same keys; what proves nothing is refused.
func TestKeys(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(private)
	spki, _ := x509.MarshalPKIXPublicKey(public)
	signer, err := PrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := PublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
	if err != nil || line(key) != line(signer.PublicKey()) {
		t.Errorf("%v", err)
	}
	if again, err := PublicKey([]byte(line(key) + " a comment\n")); err != nil || line(again) != line(key) {
		t.Errorf("%v", err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := PrivateKey(pem.EncodeToMemory(locked), []byte("open sesame")); err != nil || line(got.PublicKey()) != line(key) {
		t.Errorf("%v", err)
	}
	for _, password := range []string{"", "wrong"} {
		if _, err := PrivateKey(pem.EncodeToMemory(locked), []byte(password)); err == nil || errext.Hint(err) == "" {
			t.Errorf("opened with %q: %v", password, err)
		}
	}
	for _, text := range [][]byte{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}), []byte(line(key) + " mei@desk\n"), []byte("\n" + line(key))} {
		if _, err := PrivateKey(text, nil); err == nil || err.Error() != "it is a public key" || !strings.Contains(errext.Hint(err), "ssh-keygen -Y sign") {
			t.Errorf("a public key in the place of a private one: %v → %s", err, errext.Hint(err))
		}
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ssh.NewPublicKey(&small.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p224, _ := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	for name, text := range map[string]string{
		"small RSA": line(weak), "P-224": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: p224})),
		"two keys": line(key) + "\n" + line(key) + "\n", "nothing": "", "a private key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	} {
		if _, err := PublicKey([]byte(text)); err == nil || errext.Hint(err) == "" || strings.Contains(err.Error(), "PRIVATE KEY-----") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add("-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\n-----END SSH SIGNATURE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Proven(ledger.Approved{Statement: ledger.Statement{PlanHash: plan}, Signature: text}); err == nil {
			t.Error("it holds")
		}
	})
}

// revoke takes an approval back under a name, with a key.
func (d *desk) revoke(e ledger.Entry, by string, key ssh.Signer) ledger.Entry {
	d.t.Helper()
	d.next++
	was := e.Approved.Statement
	back, err := Revoke(d.t.Context(), d.chain, ledger.Revocation{Schema: ledger.RevocationSchema, ID: id(d.next), Service: was.Service, PlanHash: was.PlanHash, Run: was.Run, Approval: was.ID, By: by, At: noon}, key, by+"@desk")
	if err != nil {
		d.t.Fatal(err)
	}
	return back
}

// TestRevoked: an approval that was taken back by a key of the plan counts nothing from
// then on, and the same person may approve anew. A key that the plan does not know, or
// another's name, takes nothing back.
func TestRevoked(t *testing.T) {
	d := newDesk(t)
	mei := d.give(d.statement("mei"), d.mei)
	d.give(d.statement("ada"), d.ada)
	stranger := newKey(t)
	d.revoke(mei, "mei", stranger)
	d.revoke(mei, "ada", d.mei)
	if got := d.judge(""); !got.Enough() {
		t.Fatalf("taken back by nobody who may: %+v", got)
	}
	d.revoke(mei, "ada", d.ada)
	got := d.judge("")
	if got.Enough() || why(t, got) != "ada took it back, in record 5" {
		t.Errorf("%+v", got)
	}
	d.give(d.statement("mei"), d.mei)
	if got := d.judge(""); !got.Enough() || got.Valid[1].AsOf != 6 {
		t.Errorf("approved anew: %+v", got)
	}
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindApproved, At: noon, By: "mallory@x", Approved: mei.Approved}); err != nil {
		t.Fatal(err)
	}
	if got := d.judge(""); len(got.Void) != 2 {
		t.Errorf("replayed after it was taken back: %+v", got)
	}
}

// TestRevokedWithItsDuplicates: whoever takes an approval back means the person's word on
// the plan. Of two that mei gave and ada's one, one is left after either of mei's was taken
// back, and the other of mei's does not count in its place.
func TestRevokedWithItsDuplicates(t *testing.T) {
	for _, which := range []int{0, 1} {
		d := newDesk(t)
		d.opened(id(1))
		ofRun := d.statement("mei")
		ofRun.Run = id(1)
		first := d.give(ofRun, d.mei)
		ada := d.statement("ada")
		ada.Run = id(1)
		d.give(ada, d.ada)
		ofRun.ID = id(55)
		given := []ledger.Entry{first, d.give(ofRun, d.mei)}
		d.revoke(given[which], "mei", d.mei)
		got := d.judge(id(1))
		var back []uint64
		for _, a := range got.Void {
			if a.Why == "mei took it back, in record 5" {
				back = append(back, a.Record)
			}
		}
		if got.Enough() || !slices.Equal(back, []uint64{2, 4}) {
			t.Errorf("taken back by record %d: %+v", given[which].Seq, got)
		}
		anew := d.statement("mei")
		anew.Run = id(1)
		d.give(anew, d.mei)
		if got := d.judge(id(1)); !got.Enough() || got.Valid[1].Record != 6 {
			t.Errorf("approved anew: %+v", got)
		}
	}
}

// TestRevokedForOneRun: an approval of another run of the plan is another word.
func TestRevokedForOneRun(t *testing.T) {
	d := newDesk(t)
	d.opened(id(1))
	d.opened(id(2))
	a, b := d.statement("mei"), d.statement("mei")
	a.Run, b.Run = id(1), id(2)
	back := d.give(a, d.mei)
	d.give(b, d.mei)
	d.revoke(back, "mei", d.mei)
	if got := d.judge(id(2)); len(got.Valid) != 1 || got.Valid[0].Record != 4 {
		t.Errorf("%+v", got)
	}
}

// TestBrokenRevocation: any change of what was signed is seen, and never reaches the ledger.
func TestBrokenRevocation(t *testing.T) {
	d := newDesk(t)
	good := *d.revoke(d.give(d.statement("mei"), d.mei), "mei", d.mei).Revoked
	if _, err := ProvenRevocation(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *ledger.Revoked){
		"another approval": func(r *ledger.Revoked) { r.Statement.Approval = id(9) },
		"another person":   func(r *ledger.Revoked) { r.Statement.By = "ada" },
		"another reason":   func(r *ledger.Revoked) { r.Statement.Reason = "x" },
		"another key":      func(r *ledger.Revoked) { r.Key = line(d.ada.PublicKey()) },
		"no signature":     func(r *ledger.Revoked) { r.Signature = "" },
	} {
		r := good
		change(&r)
		if _, err := ProvenRevocation(r); err == nil {
			t.Errorf("%s: it still holds", name)
		}
		if _, err := PutRevocation(t.Context(), d.chain, r.Statement, r.Signature, "x@y"); err == nil && name != "another key" {
			t.Errorf("%s: it is in the ledger", name)
		}
	}
}

// TestClockSetBack: the ledger has a run that began after an approval had expired. A
// machine whose clock says that it is earlier does not make it count again.
func TestClockSetBack(t *testing.T) {
	d := newDesk(t)
	d.policy.Required = 1
	d.give(d.statement("mei"), d.mei)
	later := noon.Add(2 * time.Hour)
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindOpened, Run: id(1), At: later, By: "kim@laptop", Opened: &ledger.Opened{Service: "support", PlanHash: strings.Repeat("cd", 32)}}); err != nil {
		t.Fatal(err)
	}
	if got := d.judge(""); got.Enough() || why(t, got) != "it expired at 2026-03-04T13:00:00Z, and the ledger has a run of 2026-03-04T14:00:00Z since: this machine's clock is behind, or that run's was ahead" {
		t.Errorf("%+v", got)
	}
}

// TestClockAhead: a run that was dated far ahead, by a machine whose clock was wrong, stood
// in the ledger when an approval was given. Whoever gave it saw that; it says nothing of
// the time since, and must not keep every later approval from counting.
func TestClockAhead(t *testing.T) {
	d := newDesk(t)
	d.policy.Required = 1
	year := noon.AddDate(1, 0, 0)
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindOpened, Run: id(1), At: year, By: "kim@laptop", Opened: &ledger.Opened{Service: "support", PlanHash: strings.Repeat("cd", 32)}}); err != nil {
		t.Fatal(err)
	}
	scan, err := d.chain.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := d.statement("mei")
	s.After = scan.Head().SHA256
	d.give(s, d.mei)
	if got := d.judge(""); !got.Enough() {
		t.Errorf("%+v", got)
	}
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindOpened, Run: id(2), At: noon.Add(2 * time.Hour), By: "kim@laptop", Opened: &ledger.Opened{Service: "support", PlanHash: strings.Repeat("cd", 32)}}); err != nil {
		t.Fatal(err)
	}
	if got := d.judge(""); got.Enough() || !strings.HasSuffix(why(t, got), "the ledger has a run of 2026-03-04T14:00:00Z since: this machine's clock is behind, or that run's was ahead") {
		t.Errorf("a run after it had expired: %+v", got)
	}
}

// TestTakenBy: which run an approval went to.
func TestTakenBy(t *testing.T) {
	d := newDesk(t)
	free := d.give(d.statement("mei"), d.mei)
	s := d.statement("ada")
	s.Run = id(2)
	named := d.give(s, d.ada)
	taken := func(e ledger.Entry) string {
		scan, err := d.chain.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return TakenBy(scan, e)
	}
	if taken(free) != "" || taken(named) != "" {
		t.Error("nobody has begun")
	}
	d.opened(id(1))
	d.opened(id(2))
	if taken(free) != id(1) || taken(named) != id(2) {
		t.Errorf("%s %s", taken(free), taken(named))
	}
	if _, err := d.chain.Append(t.Context(), ledger.Record{Kind: ledger.KindClosed, Run: id(1), At: noon, By: "kim@laptop", Closed: &ledger.Closed{Verdict: drill.Refused, Status: 3}}); err != nil {
		t.Fatal(err)
	}
	if taken(free) != id(2) {
		t.Errorf("the first was refused: %s", taken(free))
	}
}
