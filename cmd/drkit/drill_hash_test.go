package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"drkit/drill/approval"
	"drkit/internal/service"
	"drkit/playbooks"
)

// fullPlan is a plan over a drkit.yaml that writes every key.
func fullPlan(t *testing.T, dir string) *drillPlan {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "service", "testdata", "valid", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "deploy"), 0o755), os.WriteFile(filepath.Join(dir, "deploy", "canary.yaml"), []byte("a: b\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	svc, err := service.Parse(data, filepath.Join(dir, "drkit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := playbooks.Builtin("rehearsal")
	if err != nil {
		t.Fatal(err)
	}
	key, err := approval.PublicKey([]byte(svc.Approvals.Keys[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	d := &drillPlan{svc: svc, playbook: p, source: copyOf{region: svc.Source()}, target: copyOf{region: svc.Targets()[0]}, id: "01", dir: filepath.Join(dir, "runs"),
		policy: approval.Policy{Required: 1, People: []approval.Person{{Name: "mei", User: "mei", Key: key}}}}
	d.o.Release = strings.Repeat("4f", 32)
	return d
}

func hashOf(t *testing.T, d *drillPlan) string {
	t.Helper()
	return d.start(t.Context()).PlanHash
}

// TestPlanHashIsOfThePlan: machine, user, time, folders and ledger do not change it.
func TestPlanHashIsOfThePlan(t *testing.T) {
	one, two := fullPlan(t, t.TempDir()), fullPlan(t, t.TempDir())
	two.id, two.dir, two.o.Scenario.ID, two.o.Metrics = "02", "/elsewhere", "S-1", "m.prom"
	two.svc.Run.Dir.Path, two.svc.Run.Ledger.Path = "/tmp/x", "other"
	two.svc.Metadata.Tier = 9
	t.Setenv("USER", "somebody")
	t.Setenv("HOME", "/nowhere")
	a, b := hashOf(t, one), hashOf(t, two)
	if a != b || len(a) != 64 {
		t.Errorf("%s and %s", a, b)
	}
	start := one.start(t.Context())
	start.By, start.Tool, start.WorkDir, start.PlaybookHash = "mallory@x", "drkit 9", "/y", "z"
	if got := one.hash(start); got != a {
		t.Errorf("who runs it, and with what, changes the hash")
	}
}

// TestPlanHashCoversEverything changes each field alone: of the regions, the edge, the
// rehearsal, traffic, objectives, waivers, what live runs may touch, the playbook and
// the approvers.
func TestPlanHashCoversEverything(t *testing.T) {
	dir := t.TempDir()
	want := hashOf(t, fullPlan(t, dir))
	changed := 0
	check := func(what string, change func(d *drillPlan)) {
		d := fullPlan(t, dir)
		change(d)
		changed++
		if hashOf(t, d) == want {
			t.Errorf("%s: the hash stays", what)
		}
	}
	for name, part := range map[string]func(d *drillPlan) any{
		"source": func(d *drillPlan) any { return d.source.region }, "target": func(d *drillPlan) any { return d.target.region },
		"edge": func(d *drillPlan) any { return &d.svc.Edge }, "rehearsal": func(d *drillPlan) any { return &d.svc.Rehearsal },
		"traffic": func(d *drillPlan) any { return &d.svc.Traffic }, "objectives": func(d *drillPlan) any { return &d.svc.Objectives },
		"waivers": func(d *drillPlan) any { return &d.svc.Waivers }, "live": func(d *drillPlan) any { return &d.svc.Live },
	} {
		for _, path := range leaves(reflect.ValueOf(part(fullPlan(t, dir))).Elem(), nil) {
			check(name+" "+strings.Join(path, "."), func(d *drillPlan) { mutate(t, reflect.ValueOf(part(d)).Elem(), path) })
		}
	}
	check("release", func(d *drillPlan) { d.o.Release = strings.Repeat("5a", 32) })
	check("demo", func(d *drillPlan) { d.o.Demo = true })
	check("mode", func(d *drillPlan) { d.playbook.Mode = "planned" })
	check("playbook's text", func(d *drillPlan) { d.playbook.Steps[0].Text += "!" })
	check("playbook's steps", func(d *drillPlan) { d.playbook.Steps = d.playbook.Steps[1:] })
	check("engine's arguments", func(d *drillPlan) { d.svc.Engine.Args = append(d.svc.Engine.Args, "--seed", "1") })
	check("adapters", func(d *drillPlan) { d.svc.Model.Adapters[0].Name = "other" })
	check("service", func(d *drillPlan) { d.svc.Metadata.Name = "other" })
	check("approvals needed", func(d *drillPlan) { d.policy.Required = 2 })
	check("self-approval", func(d *drillPlan) { d.policy.Self = true })
	check("approvers", func(d *drillPlan) { d.policy.People = nil })
	check("a patch's content", func(d *drillPlan) {
		if err := os.WriteFile(filepath.Join(dir, "deploy", "canary.yaml"), []byte("a: c\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	check("an approver's name", func(d *drillPlan) { d.policy.People[0].Name = "ada" })
	if changed < 60 {
		t.Errorf("only %d fields were tried", changed)
	}
}

// leaves lists the fields below a value, by index, that hold something of their own.
func leaves(v reflect.Value, at []string) (all [][]string) {
	if v.Type() == reflect.TypeFor[service.Location]() || v.Type() == reflect.TypeFor[service.Date]() {
		return [][]string{at}
	}
	add := func(name string, x reflect.Value) {
		all = append(all, leaves(x, append(append([]string{}, at...), name))...)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("yaml") != "" {
				add(v.Type().Field(i).Name, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			add("[0]", v.Index(0))
		}
	default:
		return [][]string{at}
	}
	return all
}

func mutate(t *testing.T, v reflect.Value, path []string) {
	t.Helper()
	for _, name := range path {
		if name == "[0]" {
			v = v.Index(0)
		} else {
			v = v.FieldByName(name)
		}
	}
	switch x := v.Addr().Interface().(type) {
	case *service.Location:
		x.Raw += "x"
		return
	case *service.Date:
		x.Time = x.Add(24 * time.Hour)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float()/2 + 0.001)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"x": "y"}))
	default:
		t.Fatalf("%v: no way to change a %v", path, v.Kind())
	}
}
