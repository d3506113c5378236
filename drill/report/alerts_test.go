package report

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/drill"
)

const alertsFile = "../../docs/monitoring/drill-alerts.yaml"

type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// TestAlerts: each rule asks for series that drkit writes, by labels that they have,
// and is tried in the file for promtool. That dead metrics are noticed needs absent().
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(strings.TrimSuffix(alertsFile, ".yaml") + "_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules alertRules
	if err := yaml.Unmarshal(data, &rules); err != nil {
		t.Fatal(err)
	}
	written := names(t)
	absent := 0
	for _, r := range rules.Groups[0].Rules {
		found := regexp.MustCompile(`drkit_[a-z_]+`).FindAllString(r.Expr, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for no series of drkit", r.Alert)
		}
		for _, name := range found {
			if !slices.Contains(written, name) {
				t.Errorf("%s asks for %s, which drkit does not write: %q", r.Alert, name, written)
			}
		}
		if strings.Contains(r.Expr, "absent(") {
			absent++
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s does not say what to do", r.Alert)
		}
		if !strings.Contains(string(tests), "alertname: "+r.Alert+", exp_alerts: [{") {
			t.Errorf("%s is nowhere seen to fire", r.Alert)
		}
	}
	if absent < 2 || len(rules.Groups[0].Rules) < 8 {
		t.Errorf("%d rules, %d with absent()", len(rules.Groups[0].Rules), absent)
	}
}

// names are the series of a run that has everything.
func names(t *testing.T) []string {
	t.Helper()
	r := of(10, 60, drill.Recovered, func(r *drill.Run) { r.Gates = []drill.GateState{{Gate: drill.Gate{ID: "g", Result: drill.Passed}}} })
	var all []string
	for name := range scrape(t, NewStatus(NewHistory([]*drill.Run{r}, none), Today{Now: time.Now()}), Health{}) {
		all = append(all, name)
	}
	return all
}
