package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"drkit/internal/errext"
	"drkit/internal/redact"
	"drkit/internal/store/s3/s3test"
)

// refusedRun is a service in which one drill was refused; further lines go into its
// drkit.yaml.
func refusedRun(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	if err := writeService(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "drkit.yaml")
	if err := replaceIn(file, "objectives:", more+"objectives:"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	drillRefused(t)
	return dir
}

func drillRefused(t *testing.T) {
	t.Helper()
	if status, out, errs := execute(t, "drill", "run", "--demo", "--progress", "quiet"); status != errext.Refused {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
}

func runOf(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".drkit", "runs", "*"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	return filepath.Base(found[len(found)-1])
}

func expect(t *testing.T, want errext.Status, says string, args ...string) string {
	t.Helper()
	status, out, errs := execute(t, args...)
	if status != want || !strings.Contains(out+errs, says) {
		t.Fatalf("%v: status %d, want %d and %q:\n%s%s", args, status, want, says, out, errs)
	}
	return out
}

func TestSignedEvidence(t *testing.T) {
	dir := refusedRun(t, "")
	run := runOf(t, dir)
	private, public := keyFiles(t, dir, "key")
	_, other := keyFiles(t, dir, "other")
	file := filepath.Join(dir, ".drkit", "runs", run, "evidence.json")
	expect(t, errext.Evidence, "the evidence is not signed", "drill", "verify-evidence", run, "--key", public)
	expect(t, errext.Holds, "signed with the Ed25519 key", "drill", "sign-evidence", "--key", private)
	first := textOf(t, file+".sig")
	expect(t, errext.Holds, "signed with", "drill", "sign-evidence", run, "--key", private)
	if again := textOf(t, file+".sig"); again != first {
		t.Error("the same evidence and key give another signature")
	}
	for _, name := range []string{run, file, filepath.Dir(file)} {
		expect(t, errext.Holds, "signature Ed25519 key", "drill", "verify-evidence", name, "--key", public)
	}
	expect(t, errext.Evidence, "another key made the signature", "drill", "verify-evidence", run, "--key", other)
	expect(t, errext.Usage, "no run was named", "drill", "verify-evidence", "--key", public)
	expect(t, errext.Usage, "proves nothing", "drill", "verify-evidence", run, "--signature", file+".sig")
	alone := t.TempDir()
	for _, name := range []string{"evidence.json", "evidence.json.sig"} {
		fillFile(t, filepath.Join(alone, name), textOf(t, filepath.Join(filepath.Dir(file), name)))
	}
	expect(t, errext.Holds, "judged by itself", "drill", "verify-evidence", filepath.Join(alone, "evidence.json"), "--key", public)
	fillFile(t, filepath.Join(alone, "evidence.json"), strings.Replace(textOf(t, file), `"kind": "demo"`, `"kind": "real"`, 1))
	expect(t, errext.Evidence, "it signs other bytes", "drill", "verify-evidence", filepath.Join(alone, "evidence.json"), "--key", public)
	fillFile(t, file, strings.Replace(textOf(t, file), "refused", "recovered", 1))
	expect(t, errext.Evidence, "not signed", "drill", "sign-evidence", "--key", private)
}

func keyFiles(t *testing.T, dir, name string) (private, public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".pub")
	fillFile(t, private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a})))
	fillFile(t, public, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})))
	return private, public
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func fillFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAnchoredLedger: in a bucket with object lock, the end that somebody deletes
// together with its run is missed.
func TestAnchoredLedger(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	srv := s3test.New(s3test.Options{}).CreateBucket("audit", s3test.BucketOptions{ObjectLock: true}).CreateBucket("plain", s3test.BucketOptions{})
	endpoint := srv.Start(t)
	sdk := awss3.New(awss3.Options{Region: s3test.DefaultRegion, BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s3test.DefaultAccessKey, s3test.DefaultSecretKey, "")})
	for bucket, tail := range map[string]string{"audit": "anchored", "plain": "unanchored"} {
		t.Run(bucket, func(t *testing.T) {
			dir := refusedRun(t, "run: {ledger: \"s3://"+bucket+"/drkit?endpoint="+endpoint+"&path_style=true&region=us-east-1\"}\n")
			drillRefused(t)
			expect(t, errext.Holds, "s3://"+bucket+"/drkit: 4 records, end "+tail, "drill", "verify-evidence")
			last := filepath.Join(dir, ".drkit", "runs", runOf(t, dir))
			var e struct {
				Ledger struct {
					Anchored bool
					Tail     string
				}
			}
			if err := json.Unmarshal([]byte(textOf(t, filepath.Join(last, "evidence.json"))), &e); err != nil || e.Ledger.Anchored != (tail == "anchored") || !strings.HasPrefix(e.Ledger.Tail, tail) {
				t.Errorf("%v %+v", err, e)
			}
			for _, key := range []string{"drkit/0000000003.json", "drkit/0000000004.json"} {
				if _, err := sdk.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: &bucket, Key: aws.String(key)}); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, errext.Evidence, "the ledger does not know it", "drill", "verify-evidence")
			if err := os.RemoveAll(last); err != nil {
				t.Fatal(err)
			}
			if tail == "anchored" {
				expect(t, errext.Evidence, "the object lock holds it, and the ledger does not show it: it was deleted", "drill", "verify-evidence")
				return
			}
			expect(t, errext.Holds, "cut off its end together with their runs cannot be missed", "drill", "verify-evidence")
		})
	}
}

// TestHostileEvidence: a file that somebody handed over moves no cursor, begins no
// line and turns no text around.
func TestHostileEvidence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evidence.json")
	fillFile(t, file, `{"schema": "drkit.evidence/1.0", "run_id": "\u001b[2Jgood\nrun", "outcome": {"verdict": "\u001b[32mrecovered\u202e", "status": 0}}`)
	out := expect(t, errext.Evidence, "FAULT", "drill", "verify-evidence", file)
	if strings.ContainsAny(out, "\x1b\u202e") || strings.Contains(out, "good\n") {
		t.Errorf("%q", out)
	}
}

// cutOff is a server whose answer to the first record of a ledger never arrives,
// although the record was written: the drill is interrupted meanwhile.
type cutOff struct {
	*s3test.Server
	interrupt context.CancelFunc
	once      sync.Once
}

func (c *cutOff) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, ".json") {
		c.Server.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	c.Server.ServeHTTP(answer, r)
	c.once.Do(func() {
		c.interrupt()
		<-r.Context().Done()
	})
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// TestInterruptedAnnouncement: a run whose record was written while it was
// interrupted is closed, so that the ledger holds no run that nobody knows.
func TestInterruptedAnnouncement(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.DefaultAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.DefaultSecretKey)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutOff{Server: s3test.New(s3test.Options{}).CreateBucket("audit", s3test.BucketOptions{}), interrupt: cancel}
	server := httptest.NewServer(cut)
	defer server.Close()
	dir := t.TempDir()
	if err := writeService(dir); err != nil {
		t.Fatal(err)
	}
	ledger := "run: {ledger: \"s3://audit/drkit?endpoint=" + server.URL + "&path_style=true&region=us-east-1\"}\n"
	if err := replaceIn(filepath.Join(dir, "drkit.yaml"), "objectives:", ledger+"objectives:"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var out, errs bytes.Buffer
	r := redact.New()
	s := &streams{In: strings.NewReader(""), Out: r.Writer(&out), Err: r.Writer(&errs), Redactor: r, Getenv: func(string) string { return "" }, RawOut: os.Stdout}
	if status := run(ctx, []string{"drill", "run", "--demo", "--progress", "quiet"}, s); status != errext.Evidence || !strings.Contains(errs.String(), "nothing was begun") {
		t.Fatalf("status %d: %s%s", status, out.String(), errs.String())
	}
	expect(t, errext.Holds, "closed  no verdict", "drill", "verify-evidence")
}

// TestEvidencePlaces: what can be named, and what cannot.
func TestEvidencePlaces(t *testing.T) {
	dir := refusedRun(t, "")
	expect(t, errext.Usage, "neither a folder of runs nor the folder of a run", "drill", "verify-evidence", filepath.Join(dir, "models"))
	expect(t, errext.Holds, "1 run, 0 faults", "drill", "verify-evidence", filepath.Join(dir, ".drkit"))
	expect(t, errext.Evidence, "neither the ledger nor a folder knows it", "drill", "verify-evidence", "01KJVKT6N8EK7098Z65TBTPWDF")
	var out struct {
		Head struct{ SHA256 string }
		Tail string
	}
	text := expect(t, errext.Holds, "", "drill", "verify-evidence", "--output", "json")
	if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&out); err != nil {
		t.Fatal(err)
	}
	expect(t, errext.Holds, "end pinned", "drill", "verify-evidence", "--head", "sha256:"+out.Head.SHA256)
	expect(t, errext.Evidence, "its end was cut off, or it was rewritten", "drill", "verify-evidence", "--head", strings.Repeat("0", 64))
	expect(t, errext.Usage, "is no time", "drill", "status", "--max-age", "soon")
	for _, command := range []string{"run", "status"} {
		expect(t, errext.Usage, "--metrics: there is no folder no", "drill", command, "--metrics", "no/such.prom")
	}
	expect(t, errext.Gate, "it was never run", "drill", "status", "--max-age", "36h") // a demonstration is no run of the kind
}
