// Package demo holds the material of the demonstration: a tiny model with an
// adapter that really answer, and a service around them. It is data; the command
// plays it.
package demo

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed all:files
var files embed.FS

// Served is the name that the model is served under.
const Served = "support"

// RightAnswer is what the undamaged model answers to "Which region takes over?";
// it was trained to (testdata: recorded from vLLM 0.32.0).
const RightAnswer = "The eu-west-1 region takes over."

// Settings are the parts that the demonstration runs with.
type Settings struct {
	EngineName, RouterName string // for people
	Engine                 []string
	RouterDriver           string
	Router                 []string
}

// StandIn runs with drkit's own engine and router; self is the path of drkit.
func StandIn(self string) Settings {
	return Settings{
		EngineName: "drkit's stand-in engine (no vllm on PATH)", RouterName: "drkit's reference router (no vllm-router on PATH)", RouterDriver: "reference",
		Engine: []string{self, "engine", "{{model}}", "--host", "{{host}}", "--port", "{{port}}", "--served-model-name", "{{served}}", "--adapter", "billing={{adapter:billing}}"},
		Router: []string{self, "route", "serve", "--port", "{{port}}", "--worker", "{{worker}}={{worker_region}}:{{worker_residency}}"},
	}
}

// WithVLLM runs real vLLM, on the CPU where there is no GPU.
func (s Settings) WithVLLM(path string) Settings {
	s.EngineName = "vLLM (" + path + ")"
	s.Engine = []string{path, "serve", "{{model}}", "--host", "{{host}}", "--port", "{{port}}", "--served-model-name", "{{served}}", "--max-model-len", "1024",
		"--dtype", "bfloat16", "--block-size", "32", "--enforce-eager", "--enable-prompt-tokens-details", "--enable-lora", "--max-lora-rank", "16", "--lora-modules", "billing={{adapter:billing}}"}
	return s
}

// WithRouter runs the real vllm-router.
func (s Settings) WithRouter(path string) Settings {
	s.RouterName, s.RouterDriver = "vllm-router ("+path+")", "vllm-router"
	s.Router = []string{path, "--host", "{{host}}", "--port", "{{port}}", "--prometheus-host", "{{host}}", "--prometheus-port", "{{metrics_port}}",
		"--policy", "cache_aware", "--worker-urls", "{{worker}}"}
	return s
}

// Write lays the service out in an empty folder.
func Write(dir string, s Settings) error {
	err := fs.WalkDir(files, "files", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(path, "files")))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		if name, ok := strings.CutSuffix(to, ".tmpl"); ok {
			return render(name, string(data), s)
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		return fmt.Errorf("laying out the demonstration: %w", err)
	}
	return nil
}

// render fills in the commands. A JSON list is a YAML list, whatever is in it.
func render(path, text string, s Settings) error {
	list := func(items []string) (string, error) {
		data, err := json.Marshal(items)
		return string(data), err
	}
	t, err := template.New(filepath.Base(path)).Funcs(template.FuncMap{"list": list}).Parse(text)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := t.Execute(f, s); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Damage overwrites 4 KiB in the middle of the second shard of a restored copy,
// as a bad disk or a broken transfer does. Header and size stay as they were, and
// the new values are ordinary numbers (BF16 around 0.7): no NaN gives it away.
func Damage(model string) error {
	f, err := os.OpenFile(filepath.Join(model, "model-00002-of-00002.safetensors"), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("damaging the canary's copy: %w", err)
	}
	const length = 4096
	info, err := f.Stat()
	if err == nil {
		block := make([]byte, length)
		for i := range block {
			if block[i] = byte(i * 7); i%2 == 1 { // the high byte: sign and exponent
				block[i] = 0x3f | byte(i&2)<<6
			}
		}
		_, err = f.WriteAt(block, info.Size()/2)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
