package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"gopkg.in/yaml.v3"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store/mem"
	"drkit/playbooks"
)

// TestApprovedIsJudgedAgain: an approval that counted before the run was in the ledger,
// and that another run took meanwhile, moves nothing.
func TestApprovedIsJudgedAgain(t *testing.T) {
	before := drill.RunStarted{PlanHash: "abc", Approvals: []drill.Approval{{Approver: "mei", Record: 4}}}
	taken := drill.Approval{Approver: "mei", Record: 4, Why: "run R9 took it"}
	d := &drillPlan{svc: &service.Service{}, policy: approval.Policy{Required: 1},
		playbook: playbooks.Playbook{Mode: playbooks.Planned, Steps: []playbooks.Step{{ID: "cutover", Kind: "cutover"}}}}
	if found := d.approved(t.Context(), before); len(found) != 0 {
		t.Errorf("what counted: %v", found)
	}
	d.weigh = func(context.Context, string) (approval.Tally, error) {
		return approval.Tally{Required: 1, Void: []drill.Approval{taken}}, nil
	}
	if found := d.approved(t.Context(), before); len(found) != 1 || !strings.Contains(found[0].Error(), "0 of 1 approvals") || !strings.Contains(found[0].Error(), "run R9 took it") {
		t.Errorf("what another run took: %v", found)
	}
}

// TestUnlessOwn: an approval of a plan says in whose run it counts nothing.
func TestUnlessOwn(t *testing.T) {
	people := approval.Policy{Required: 1, People: []approval.Person{{Name: "mei", User: "mei-dr"}, {Name: "ada", User: "ada"}}}
	allowed := people
	allowed.Self = true
	valid := []drill.Approval{{Approver: "mei"}}
	for name, c := range map[string]struct {
		policy   approval.Policy
		valid    []drill.Approval
		operator string
		want     string
	}{
		"of a plan":                {people, valid, "", "a run that mei-dr or root starts"},
		"of a run":                 {people, valid, "kim@console", ""},
		"self is allowed":          {allowed, valid, "", ""},
		"it counts nothing at all": {people, nil, "", ""},
	} {
		if got := unlessOwn(c.policy, c.valid, c.operator, "root@laptop"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestGuarded: a step that waits for people excuses a run that nobody approved only when
// nothing of production can be changed without it.
func TestGuarded(t *testing.T) {
	s := func(kind string) playbooks.Step { return playbooks.Step{Kind: kind} }
	always := func(kind string) playbooks.Step { return playbooks.Step{Kind: kind, When: playbooks.Always} }
	beside := func(kind string) playbooks.Step { return playbooks.Step{Kind: kind, Group: "g"} }
	waits := func(with string) playbooks.Step {
		step := s("wait")
		if err := yaml.Unmarshal([]byte(with), &step.With); err != nil {
			t.Fatal(err)
		}
		step.With = *step.With.Content[0]
		return step
	}
	for name, c := range map[string]struct {
		steps []playbooks.Step
		want  bool
	}{
		"after time":                     {[]playbooks.Step{waits("{for: 30s}"), s("approve"), s("cutover")}, true},
		"after an answer":                {[]playbooks.Step{waits("{http: {url: http://ticket.example/7}}"), s("approve"), s("cutover")}, true},
		"after a request that changes":   {[]playbooks.Step{waits("{http: {url: http://edge.example/flip, method: POST}}"), s("approve"), s("cutover")}, false},
		"after a wait with a command":    {[]playbooks.Step{waits("{run: {command: [flip-dns, eu]}}"), s("approve"), s("cutover")}, false},
		"after a wait that says nothing": {[]playbooks.Step{s("wait"), s("approve"), s("cutover")}, false},
		"first":                          {[]playbooks.Step{s("approve"), s("cutover"), always("cleanup")}, true},
		"after checks":                   {[]playbooks.Step{s("preflight"), s("declare"), s("approve"), s("run")}, true},
		"none":                           {[]playbooks.Step{s("preflight"), s("cutover")}, false},
		"after a change":                 {[]playbooks.Step{s("run"), s("approve"), s("cutover")}, false},
		"beside a change":                {[]playbooks.Step{beside("approve"), beside("cutover")}, false},
		"a change that runs anyway":      {[]playbooks.Step{s("approve"), s("cutover"), always("run")}, false},
		"a message that is sent anyway":  {[]playbooks.Step{s("approve"), s("cutover"), always("notify")}, true},
	} {
		if got := guarded(c.steps); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnheard: what would count nothing because it was said before is refused before it
// is written: the same statement again, and another approval by a person whose first one
// stands. After that was taken back the person may approve anew.
func TestUnheard(t *testing.T) {
	noon := now().UTC().Truncate(time.Second)
	chain, key := ledger.NewChain(mem.New(), "mem", nil), sshKey(t)
	policy := approval.Policy{Required: 2, People: []approval.Person{{Name: "mei", Key: key.PublicKey()}, {Name: "ada", Key: sshKey(t).PublicKey()}}}
	by := func(name string) ledger.Statement {
		return ledger.Statement{Schema: ledger.StatementSchema, ID: ledger.NewID(noon), Service: "support", PlanHash: strings.Repeat("ab", 32), Approver: name, At: noon, Expires: noon.Add(time.Hour)}
	}
	ask := func(st ledger.Statement) error {
		scan, err := chain.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return unheard(scan, policy, st)
	}
	refusal := func(what string, err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || errext.StatusOf(err) != errext.Refused || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	first := by("mei")
	refusal("the first", ask(first), "")
	if _, err := approval.Give(t.Context(), chain, first, key, "mei@desk"); err != nil {
		t.Fatal(err)
	}
	refusal("a replay", ask(first), "is in the ledger already, as record 1")
	refusal("a duplicate", ask(by("mei")), "mei approved already, in record 1")
	refusal("another person's", ask(by("ada")), "")
	another := by("mei")
	another.PlanHash = strings.Repeat("cd", 32)
	refusal("another plan's", ask(another), "")
	back := ledger.Revocation{Schema: ledger.RevocationSchema, ID: ledger.NewID(noon), Service: "support", PlanHash: first.PlanHash, Approval: first.ID, By: "mei", At: noon}
	if _, err := approval.Revoke(t.Context(), chain, back, key, "mei@desk"); err != nil {
		t.Fatal(err)
	}
	refusal("anew", ask(by("mei")), "")
	refusal("a replay of what was taken back", ask(first), "is in the ledger already")
}

func sshKey(t *testing.T) ssh.Signer {
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
