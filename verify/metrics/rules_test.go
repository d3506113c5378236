package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// monitoring reads a file of docs/monitoring, without keys that are not known.
func monitoring(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "docs", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		t.Fatal(err)
	}
}

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// TestAlertRules: the rules speak of metrics that exist, with labels that they
// have, and each goes red in the tests that promtool runs on them.
func TestAlertRules(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	monitoring(t, "alerts.yaml", &rules)
	var tests struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Name, Interval string
			InputSeries    []struct{ Series, Values string } `yaml:"input_series"`
			AlertRuleTest  []struct {
				EvalTime  string `yaml:"eval_time"`
				Alertname string
				ExpAlerts []struct {
					ExpLabels      map[string]string `yaml:"exp_labels"`
					ExpAnnotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	monitoring(t, "alerts_test.yaml", &tests)
	red := map[string]bool{}
	for _, test := range tests.Tests {
		for _, s := range test.InputSeries {
			name, _, _ := strings.Cut(s.Series, "{")
			known(t, test.Name, name)
		}
		for _, a := range test.AlertRuleTest {
			red[a.Alertname] = red[a.Alertname] || len(a.ExpAlerts) > 0
		}
	}
	names := regexp.MustCompile(`drkit_[a-z_]+`)
	all := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all++
			for _, name := range names.FindAllString(r.Expr, -1) {
				known(t, r.Alert, name)
			}
			if !names.MatchString(r.Expr) || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("%s is not whole: %+v", r.Alert, r)
			}
			if !red[r.Alert] {
				t.Errorf("%s has no test in which it fires", r.Alert)
			}
			delete(red, r.Alert)
		}
	}
	if all < 5 || len(red) > 0 {
		t.Errorf("%d rules; tests of rules that there are not: %v", all, red)
	}
}

func known(t *testing.T, where, name string) {
	t.Helper()
	for _, h := range help {
		if h.name == name {
			return
		}
	}
	t.Errorf("%s: there is no metric %s", where, name)
}

// TestVerdictsOfRules: a rule that names a verdict which no object gets would
// never fire.
func TestVerdictsOfRules(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`verdict=~?"([^"]+)"`).FindAllStringSubmatch(string(data), -1) {
		for v := range strings.SplitSeq(m[1], "|") {
			found := false
			for _, have := range verdicts {
				found = found || string(have) == v
			}
			if !found {
				t.Errorf("no object gets the verdict %q", v)
			}
		}
	}
}
