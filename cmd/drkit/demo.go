package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	"drkit/internal/demo"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/internal/service"
)

// demoOptions are those of demo.
type demoOptions struct {
	progressOption
	Dir     string
	Keep    bool
	StandIn bool
}

func newDemo(s *streams, run func(context.Context, *streams, demoOptions) error) *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "See a recovery happen on this machine",
		Long: `Tells the whole story in about half a minute, with nothing else installed: two
regions as folders, a tiny model that really answers, a forgotten tokenizer found
and repaired, a canary booted from the other region, a router failed over under
traffic, a timed report, and a damaged canary that is caught by its answers. Real
vLLM and vllm-router are used when they are on PATH; it says which engine it is.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.Dir, "dir", "", "work in this new folder instead of a temporary one")
	c.Flags().BoolVar(&o.Keep, "keep", false, "keep the folder, to look at it afterwards")
	c.Flags().BoolVar(&o.StandIn, "stand-in", false, "use the stand-in engine and the reference router even where vLLM is installed")
	return c
}

// demonstration is one run of the demo.
type demonstration struct {
	s        *streams
	o        demoOptions
	dir      string
	settings demo.Settings
	step     int
}

func runDemo(ctx context.Context, s *streams, o demoOptions) error {
	if _, err := o.mode(s); err != nil {
		return err
	}
	d := &demonstration{s: s, o: o}
	if err := d.prepare(); err != nil {
		return err
	}
	err := d.play(ctx)
	if !o.Keep {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	if err != nil {
		return fmt.Errorf("the demonstration did not go as it must: %w", err)
	}
	d.say("All of it went as it must.")
	if o.Keep {
		d.tell("The folder is kept: %s", d.dir)
	} else {
		d.tell("Nothing is left: the folder and all processes are gone.")
	}
	d.tell("Next: drkit init writes a drkit.yaml for your own service (docs/init.md), then drkit manifest check.")
	return nil
}

func (d *demonstration) prepare() (err error) {
	if d.dir = d.o.Dir; d.dir == "" {
		d.dir, err = os.MkdirTemp("", "drkit-demo-*")
	} else if err = os.Mkdir(d.dir, 0o755); err != nil {
		err = usage(fmt.Errorf("making the folder of the demonstration: %w", err), "name one that does not exist yet")
	}
	if err != nil {
		return err
	}
	if d.dir, err = filepath.EvalSymlinks(d.dir); err != nil {
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil { // the engines run in folders of their own
		return err
	}
	if d.settings, err = d.choose(); err != nil {
		return err
	}
	return demo.Write(d.dir, d.settings)
}

// choose takes real parts where they are installed.
func (d *demonstration) choose() (demo.Settings, error) {
	self, err := os.Executable()
	if err != nil {
		return demo.Settings{}, fmt.Errorf("finding this program: %w", err)
	}
	set := demo.StandIn(self)
	if d.o.StandIn {
		return set, nil
	}
	if path, err := exec.LookPath("vllm"); err == nil {
		set = set.WithVLLM(path)
	}
	if path, err := exec.LookPath("vllm-router"); err == nil {
		set = set.WithRouter(path)
	}
	return set, nil
}

func (d *demonstration) say(format string, args ...any) {
	fmt.Fprintf(d.s.Out, "\n━━ "+format+"\n", args...)
}

func (d *demonstration) tell(format string, args ...any) {
	fmt.Fprintf(d.s.Out, "   "+format+"\n", args...)
}

// act prints the command that a person would type, runs it, and insists on the
// exit status that the story needs.
func (d *demonstration) act(typed string, want errext.Status, run func() error) error {
	fmt.Fprintf(d.s.Out, "\n   $ drkit %s\n", typed)
	err := run()
	got := errext.StatusOf(err)
	if o, ok := errors.AsType[outcome](err); ok {
		got, err = o.status, nil
	}
	if got != want {
		if err == nil {
			err = fmt.Errorf("drkit %s ended with status %d (%s), not %d", typed, got, got, want)
		}
		return err
	}
	d.tell("→ exit status %d (%s)", got, got)
	return nil
}

func (d *demonstration) service() serviceOption {
	return serviceOption{File: filepath.Join(d.dir, "drkit.yaml")}
}

func (d *demonstration) services() servicesOption {
	return servicesOption{Files: []string{d.service().File}}
}

func (d *demonstration) path(elements ...string) string {
	return filepath.Join(append([]string{d.dir}, elements...)...)
}

func (d *demonstration) play(ctx context.Context) error {
	d.say("Two regions, one service, engine: %s, router: %s", d.settings.EngineName, d.settings.RouterName)
	d.tell("us-east-1 serves, eu-west-1 must be able to take over. Both are folders in %s", d.dir)
	for _, scene := range []func(context.Context) error{d.record, d.publish, d.forget, d.repair, d.drill, d.damage} {
		err := scene(ctx)
		if ctx.Err() != nil && (err == nil || errext.StatusOf(err) == errext.Failed) {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record boots the engine on the sources and records its answers.
func (d *demonstration) record(ctx context.Context) error {
	d.say("1. Record how the service answers while it is right")
	return d.engine(ctx, d.path("models", "support-tiny"), d.path("models", "billing"), func(endpoint string) error {
		return d.act("probe record --endpoint "+endpoint, errext.Holds, func() error {
			o := recordOptions{serviceOption: d.service(), endpointOption: endpointOption{Endpoint: endpoint}, progressOption: quiet, Hardware: "cpu", Tolerance: 0.1, MaxTokens: 24}
			return runProbeRecord(ctx, d.s, o)
		})
	})
}

var quiet = progressOption{Progress: "quiet"}

func (d *demonstration) publish(ctx context.Context) error {
	d.say("2. Build the manifest, pass the gate, publish the release in both regions")
	file := d.path("manifest.json")
	if err := d.act("manifest build -o manifest.json", errext.Holds, func() error {
		return runManifestBuild(ctx, d.s, buildOptions{serviceOption: d.service(), progressOption: quiet, Out: file})
	}); err != nil {
		return err
	}
	if err := d.act("manifest check manifest.json", errext.Holds, func() error {
		return runManifestCheck(ctx, d.s, checkOptions{servicesOption: d.services(), outputOption: asText, progressOption: quiet, Manifest: file})
	}); err != nil {
		return err
	}
	return d.act("replicate --manifest manifest.json --yes", errext.Holds, func() error {
		return runReplicate(ctx, d.s, replicateOptions{serviceOption: d.service(), releaseOption: releaseOption{Manifest: file}, outputOption: asText, progressOption: quiet, Yes: true})
	})
}

var asText = outputOption{Output: "text"}

// forget takes the tokenizer out of the target's copy: what a sync that filters
// by file name does.
func (d *demonstration) forget(ctx context.Context) error {
	d.say("3. The tokenizer is forgotten in eu-west-1: parity is red")
	found, err := filepath.Glob(d.path("regions", "eu-west-1", "support", "*", "model", "base", "tokenizer.json"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the published tokenizer was found %d times in eu-west-1 (%w)", len(found), err)
	}
	if err := os.Remove(found[0]); err != nil {
		return err
	}
	return d.verify(ctx, errext.Gate)
}

func (d *demonstration) verify(ctx context.Context, want errext.Status) error {
	return d.act("verify --images skip", want, func() error {
		return runVerify(ctx, d.s, verifyOptions{servicesOption: d.services(), outputOption: asText, progressOption: quiet, depthOption: depthOption{Level: "checksum", Require: "claimed", SampleBy: "count"}, copyImagesOption: copyImagesOption{"skip"}})
	})
}

func (d *demonstration) repair(ctx context.Context) error {
	d.say("4. Repair it: parity is green")
	if err := d.act("replicate --yes", errext.Holds, func() error {
		return runReplicate(ctx, d.s, replicateOptions{serviceOption: d.service(), outputOption: asText, progressOption: quiet, Yes: true})
	}); err != nil {
		return err
	}
	return d.verify(ctx, errext.Holds)
}

func (d *demonstration) drill(ctx context.Context) error {
	d.say("5. The drill: us-east-1 counts as lost, the clock runs")
	return d.act("drill run --demo", errext.Holds, func() error {
		return runDrill(ctx, d.s, drillOptions{serviceOption: d.service(), outputOption: asText, progressOption: d.o.progressOption, Demo: true})
	})
}

// damage shows a canary that boots, is healthy, and answers wrongly.
func (d *demonstration) damage(ctx context.Context) error {
	d.say("6. A damaged canary: healthy by every health check, caught by its answers")
	restored := d.path("damaged")
	if err := d.act("restore --region eu-west-1 damaged", errext.Holds, func() error {
		return runRestore(ctx, d.s, restoreOptions{serviceOption: d.service(), outputOption: asText, progressOption: quiet, Region: "eu-west-1", Dir: restored})
	}); err != nil {
		return err
	}
	base, adapter := filepath.Join(restored, "model", "base"), filepath.Join(restored, "model", "adapters", "billing")
	if err := demo.Damage(base); err != nil {
		return err
	}
	d.tell("4 KiB of a shard are overwritten, after the restore hashed them")
	return d.engine(ctx, base, adapter, func(endpoint string) error {
		if err := d.show(ctx, endpoint); err != nil {
			return err
		}
		return d.act("probe compare engine/probes.json --endpoint "+endpoint, errext.Gate, func() error {
			return runProbeCompare(ctx, d.s, compareOptions{endpointOption: endpointOption{Endpoint: endpoint}, outputOption: asText, Probes: d.path("engine", "probes.json")})
		})
	})
}

// show asks the damaged canary what a health check and a person would ask.
func (d *demonstration) show(ctx context.Context, endpoint string) error {
	c := &openai.Client{BaseURL: endpoint, HTTP: httpClient()}
	if err := c.Health(ctx); err != nil {
		return fmt.Errorf("the damaged canary should be healthy: %w", err)
	}
	question := "Which region takes over?"
	answer, err := c.Chat(ctx, openai.ChatRequest{Model: demo.Served, Messages: []openai.Message{{Role: "user", Content: question}},
		Sampling: openai.Sampling{MaxTokens: openai.Ptr(24), Temperature: openai.Ptr(0.0)}})
	if err != nil {
		return err
	}
	got := answer.Choices[0].Message.Content
	d.tell("GET /health          200")
	d.tell("%s   %q (right: %q)", question, got, demo.RightAnswer)
	if strings.TrimSpace(got) == demo.RightAnswer {
		return errors.New("the damaged canary answers rightly: the damage has no effect")
	}
	return nil
}

// engine runs the engine on a model for the time of f, and stops it.
func (d *demonstration) engine(ctx context.Context, model, adapter string, f func(endpoint string) error) (err error) {
	svc, err := service.Load(d.service().File)
	if err != nil {
		return err
	}
	launcher := newLauncher(svc)
	spec := drill.Spec{Run: ledger.NewID(now()), Name: "engine", Model: model, Served: demo.Served, Command: d.settings.Engine, Dir: d.dir,
		Adapters: map[string]string{"billing": adapter}, LogPath: d.path(fmt.Sprintf("engine-%d.log", d.step))}
	d.step++
	r, err := launcher.Launch(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if serr := r.Stop(stop); serr != nil {
			err = errors.Join(err, errext.WithStatus(serr, errext.Unclean))
		}
	}()
	if err := d.healthy(ctx, r, spec); err != nil {
		return err
	}
	return f(r.Endpoint())
}

func (d *demonstration) healthy(ctx context.Context, r drill.Replica, spec drill.Spec) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the engine was not ready within 5m"))
	defer cancel()
	c := &openai.Client{BaseURL: r.Endpoint(), HTTP: httpClient()}
	for c.Health(ctx) != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.Exited():
			tail := ""
			if p, ok := r.(*process.Replica); ok {
				tail = strings.Join(p.Tail(5), "\n")
			}
			return fmt.Errorf("the engine ended (%s): %s", r.ExitState(), tail)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
