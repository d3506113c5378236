package manifest

import (
	"cmp"
	"context"
	"fmt"

	"drkit/manifest/deploy"
	"drkit/manifest/engine"
)

// EngineLine is one command line that starts an engine of a release, ready for
// engine.Parse. It may hold secrets.
type EngineLine struct {
	Region  string // empty: in every region
	Source  string // "path:line" of the deploy file that starts it; empty: drkit.yaml
	Command engine.Command
	Exact   bool // false: variables or a controller change it in a way that is not in the files
}

// EngineLines reads the engine and deploy files of a release, and not its model,
// and lists the command lines that start its engines: those of drkit.yaml first,
// one a region, then those of deploy files. The problems are the deploy readers'.
func EngineLines(ctx context.Context, in Input) ([]EngineLine, []deploy.Problem, error) {
	c := &collector{}
	if err := c.files(ctx, Engine, in.EngineFiles); err != nil {
		return nil, nil, err
	}
	if err := c.files(ctx, Deploy, in.DeployFiles); err != nil {
		return nil, nil, err
	}
	if err := c.unique(); err != nil {
		return nil, nil, err
	}
	if err := c.read(ctx, in); err != nil {
		return nil, nil, err
	}
	var lines []EngineLine
	for _, region := range engineRegions(in) {
		lines = append(lines, EngineLine{Region: region, Command: command(c.engineFiles(region), in.Engine), Exact: true})
	}
	deployed, problems := c.deployLines(in)
	return append(lines, deployed...), problems, nil
}

// deployLines are the command lines of the deploy files.
func (c *collector) deployLines(in Input) (lines []EngineLine, problems []deploy.Problem) {
	for _, it := range c.items {
		if it.Part != Deploy {
			continue
		}
		facts, found := deploy.Read(it.Path, it.capture.Bytes())
		problems = append(problems, found...)
		for _, cmd := range facts.Engine {
			for _, region := range c.renderings(it, cmd, in.Regions) {
				lines = append(lines, EngineLine{Region: region, Source: fmt.Sprintf("%s:%d", it.Path, cmd.Line),
					Command: c.startedCommand(it, region, cmd, in.Engine), Exact: cmd.Exact})
			}
		}
	}
	return lines, problems
}

// startedCommand is a container's command line with the files that it can see in
// a region.
// The version is drkit.yaml's for the engine that it is of, else that of the
// image's tag.
func (c *collector) startedCommand(it *item, region string, cmd deploy.EngineCommand, e EngineInput) engine.Command {
	ec := engine.Command{Argv: cmd.Argv, Entry: engine.Entry(cmd.Entry), Version: cmd.Version, Env: cmd.Env, Files: map[string][]byte{}, Path: it.Path, Line: cmd.Line}
	if ec.Entry.Engine() == cmp.Or(e.Kind, engine.VLLM) {
		ec.Version = cmp.Or(e.Version, cmd.Version)
	}
	for _, at := range cmd.Places {
		ec.Sources = append(ec.Sources, engine.Source{Path: it.Path, Line: at.Line, Env: at.Env})
	}
	files := c.engineFiles(region)
	for p, f := range files {
		ec.Files[p] = f.capture.Bytes()
	}
	for _, a := range cmd.Argv {
		if f := named(files, a); f != nil {
			ec.Files[a] = f.capture.Bytes()
		}
	}
	return ec
}
