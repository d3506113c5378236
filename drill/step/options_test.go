package step_test

import (
	"strings"
	"testing"

	"drkit/drill/step"
	"drkit/playbooks"
)

func TestOptionsAreStrict(t *testing.T) {
	p, err := playbooks.Builtin(playbooks.Rehearsal, step.KindNames()...)
	if err != nil {
		t.Fatal(err)
	}
	if problems := step.CheckOptions(p); len(problems) > 0 {
		t.Errorf("the built-in playbook: %v", problems)
	}
	for _, tc := range []struct{ kind, with, want string }{
		{"verify", "{level: presence}", "presence"},
		{"verify", "{require: claimed}", "claimed"},
		{"verify", "{lvl: content}", "lvl"},
		{"restore", "{region: elsewhere}", "elsewhere"},
		{"boot", "{regoin: target}", "regoin"},
		{"traffic", "{rate: -1}", "rate"},
		{"traffic", "{rate: 1e9}", "rate"},
		{"traffic", "{families: 0}", "families"},
		{"traffic", "{max_tokens: 0}", "max_tokens"},
		{"traffic", "{request_timeout: 0s}", "request_timeout"},
		{"declare", "{region: target}", "region"},
	} {
		one := playbooks.Playbook{Steps: []playbooks.Step{{ID: "x", Kind: tc.kind, With: node(t, tc.with)}}}
		problems := step.CheckOptions(one)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), tc.want) {
			t.Errorf("%s %s: %v", tc.kind, tc.with, problems)
		}
	}
}
