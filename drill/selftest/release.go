package selftest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"drkit/drill/probe"
	"drkit/internal/openai"
	"drkit/internal/pipenet"
	"drkit/internal/standin"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/probes"
	"drkit/manifest/region"
	"drkit/replicate"
	"drkit/verify"
)

const (
	service    = "self-test"
	served     = "self-test-model"
	adapter    = "billing"
	sourceName = "region-a"
	targetName = "region-b"
)

// published is a release as two regions hold it.
type published struct {
	manifest                        *manifest.Manifest
	source, target, sourceSt, state map[string]string
}

// releases are those that cases start from.
type releases struct {
	sound published
	bare  published // without its chat template: equal in both regions, and broken
}

func newReleases(ctx context.Context, in Input) (*releases, error) {
	sound, err := newRelease(ctx, in.Model, in.Adapter)
	if err != nil {
		return nil, err
	}
	without := filepath.Join(in.WorkDir, "without-template")
	if err := os.CopyFS(without, os.DirFS(in.Model)); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(without, template)); err != nil {
		return nil, err
	}
	bare, err := newRelease(ctx, without, in.Adapter)
	return &releases{sound, bare}, err
}

// newRelease builds the release of a model's folder, records how the stand-in engine
// answers with it, builds it again with the recording, and replicates it.
func newRelease(ctx context.Context, model, lora string) (published, error) {
	in := manifest.Input{Service: service, Tool: "self-test",
		Model:    manifest.Tree{Source: dir.Plain(model)},
		Adapters: []manifest.Tree{{Name: adapter, Source: dir.Plain(lora)}},
		Engine:   manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: []string{"--enable-lora", "--lora-modules", adapter + "=/adapters/" + adapter}},
	}
	m, _, err := manifest.Build(ctx, in)
	if err != nil {
		return published{}, err
	}
	recorded, err := record(ctx, m, model, lora)
	if err != nil {
		return published{}, err
	}
	own := mem.New().Fill(map[string]string{"probes.json": recorded})
	in.EngineFiles = []manifest.PartFile{{Path: "probes.json", Role: manifest.Probes, Source: own, Key: "probes.json"}}
	m, files, err := manifest.Build(ctx, in)
	if err != nil {
		return published{}, err
	}
	return publish(ctx, m, files.Body)
}

// record asks the stand-in engine what it answers while nothing is damaged.
func record(ctx context.Context, m *manifest.Manifest, model, lora string) (string, error) {
	e, err := standin.Load(model, standin.LoadOptions{ServedModelNames: []string{served}, Adapters: []standin.Adapter{{Name: adapter, Dir: lora}}})
	if err != nil {
		return "", err
	}
	var net pipenet.Network
	defer net.Close()
	if _, err := net.Serve("known-good:80", e.Handler()); err != nil {
		return "", err
	}
	set, err := probe.Record(ctx, &openai.Client{BaseURL: "http://known-good", HTTP: net.Client()}, probe.Recording{
		Subject: manifest.SubjectOf(m), Questions: probe.DefaultQuestions[:2], HardwareClass: "cpu", Tolerance: probe.DefaultTolerance, MaxTokens: 8})
	if err != nil {
		return "", err
	}
	// Its thousand tokens would take most of the time of the whole test.
	set.Probes = slices.DeleteFunc(set.Probes, func(p probes.Probe) bool { return p.ID == "long-context" })
	var text bytes.Buffer
	if err := probes.Encode(&text, set); err != nil {
		return "", fmt.Errorf("encoding the recorded answers: %w", err)
	}
	return text.String(), nil
}

func publish(ctx context.Context, m *manifest.Manifest, content func(manifest.File) (store.Body, error)) (published, error) {
	source, target, sourceState, targetState := mem.New(), mem.New(), mem.New(), mem.New()
	regions := []replicate.Region{
		{Name: sourceName, Role: region.Source, Store: source, State: sourceState},
		{Name: targetName, Role: region.Target, Store: target, State: targetState},
	}
	opts := verify.Options{Level: verify.ByContent, Require: store.Content}
	found, err := replicate.Survey(ctx, m, regions, opts)
	if err != nil {
		return published{}, err
	}
	plan, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil {
		return published{}, err
	}
	_, err = replicate.Execute(ctx, plan, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content, Verify: opts})
	return published{m, source.Content(), target.Content(), sourceState.Content(), targetState.Content()}, err
}
