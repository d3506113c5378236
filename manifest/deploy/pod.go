package deploy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Pod is a pod template in a file, with what decides whether an engine in it
// gets the time and the surroundings that it needs.
type Pod struct {
	Path       string      `json:"path"`
	Line       int         `json:"line"` // of the pod's specification
	Kind       string      `json:"kind,omitempty"`
	Name       string      `json:"name,omitempty"`
	Containers []Container `json:"containers"`
}

// Container is one container of a pod.
type Container struct {
	Name     string   `json:"container"` // not "name": that is the resource's, where both stand side by side
	Line     int      `json:"line"`
	User     *int64   `json:"run_as_user,omitempty"` // nil: not said
	UserLine int      `json:"run_as_user_line,omitempty"`
	NonRoot  bool     `json:"run_as_non_root,omitempty"`
	Env      []string `json:"env,omitempty"` // names only, sorted
	EnvFrom  bool     `json:"env_from,omitempty"`
	Limits   []Limit  `json:"limits,omitempty"` // that end the start of an engine, the smallest first
}

// Limit is a time after which something gives up on an engine that still starts.
type Limit struct {
	What    string `json:"what"`
	Seconds int    `json:"seconds"`
	Line    int    `json:"line,omitempty"` // 0: a default that stands nowhere
}

// ProgressDeadline begins the What of the one limit that runs while images are pulled.
const ProgressDeadline = "progressDeadlineSeconds"

// Defaults of Kubernetes and of vLLM, in seconds.
const (
	defaultDeadline = 600
	defaultReady    = 600
)

// Pods lists the pod templates of a YAML file. A file that is no YAML has none;
// Read says what is wrong with it.
func Pods(file string, data []byte) (pods []Pod) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for range maxDocuments {
		var doc yaml.Node
		if d.Decode(&doc) != nil {
			return pods
		}
		if len(doc.Content) == 1 {
			kind, name := text(child(doc.Content[0], "kind")), text(child(child(doc.Content[0], "metadata"), "name"))
			walkPods(doc.Content[0], Pod{Path: file, Kind: kind, Name: name}, 0, nil, &pods)
		}
	}
	return pods
}

const (
	maxDocuments = 10_000
	maxNesting   = 100 // levels of YAML that are looked at
)

func walkPods(n *yaml.Node, p Pod, depth int, deadline *yaml.Node, pods *[]Pod) {
	if depth > maxNesting || n.Kind == yaml.AliasNode {
		return
	}
	if d := child(n, "progressDeadlineSeconds"); d != nil {
		deadline = d
	}
	if list := child(n, "containers"); list != nil && list.Kind == yaml.SequenceNode {
		p.Line = n.Line
		for _, c := range list.Content {
			p.Containers = append(p.Containers, container(n, c, p.Kind, deadline))
		}
		*pods = append(*pods, p)
		return
	}
	for _, c := range n.Content {
		walkPods(c, p, depth+1, deadline, pods)
	}
}

func container(spec, n *yaml.Node, kind string, deadline *yaml.Node) Container {
	c := Container{Name: text(child(n, "name")), Line: n.Line, EnvFrom: child(n, "envFrom") != nil}
	for _, from := range []*yaml.Node{child(spec, "securityContext"), child(n, "securityContext")} {
		if user := child(from, "runAsUser"); user != nil {
			if id, err := strconv.ParseInt(user.Value, 10, 64); err == nil {
				c.User, c.UserLine = &id, user.Line
			}
		}
		c.NonRoot = c.NonRoot || text(child(from, "runAsNonRoot")) == "true"
		if c.UserLine == 0 && child(from, "runAsNonRoot") != nil {
			c.UserLine = child(from, "runAsNonRoot").Line
		}
	}
	ready := Limit{What: "the engine's own VLLM_ENGINE_READY_TIMEOUT_S (default)", Seconds: defaultReady}
	if env := child(n, "env"); env != nil {
		for _, e := range env.Content {
			name := text(child(e, "name"))
			c.Env = append(c.Env, name)
			if s, ok := number(child(e, "value")); ok && name == "VLLM_ENGINE_READY_TIMEOUT_S" {
				ready = Limit{"the engine's own VLLM_ENGINE_READY_TIMEOUT_S", s, child(e, "value").Line}
			}
		}
	}
	slices.Sort(c.Env)
	c.Limits = append(c.Limits, ready)
	c.Limits = append(c.Limits, probes(n)...)
	if kind == "Deployment" {
		l := Limit{What: ProgressDeadline + " (default)", Seconds: defaultDeadline}
		if s, ok := number(deadline); ok {
			l = Limit{ProgressDeadline, s, deadline.Line}
		}
		c.Limits = append(c.Limits, l)
	}
	slices.SortStableFunc(c.Limits, func(a, b Limit) int { // of equal ones first what stands in the file
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(min(b.Line, 1), min(a.Line, 1)))
	})
	return c
}

// probes are the budgets of the probes that end a start: the startup probe, or
// without one the liveness probe, which then runs from the start.
func probes(n *yaml.Node) []Limit {
	for _, name := range []string{"startupProbe", "livenessProbe"} {
		p := child(n, name)
		if p == nil || p.Kind != yaml.MappingNode {
			continue
		}
		get := func(field string, otherwise int) int {
			if s, ok := number(child(p, field)); ok {
				return s
			}
			return otherwise
		}
		delay, failures, period := get("initialDelaySeconds", 0), get("failureThreshold", 3), get("periodSeconds", 10)
		return []Limit{{fmt.Sprintf("%s: %d + %d x %d s", name, delay, failures, period), delay + failures*period, keyLine(n, name)}}
	}
	return nil
}

// keyLine is the line of a member's key.
func keyLine(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i].Line
		}
	}
	return n.Line
}

// child is a member of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// number is a scalar that is a whole number of at most a year's seconds.
func number(n *yaml.Node) (int, bool) {
	s, err := strconv.Atoi(text(n))
	return s, err == nil && s >= 0 && s <= 365*24*3600
}
