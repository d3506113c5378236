package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/standin"
)

// engineOptions are those of the stand-in engine.
type engineOptions struct {
	ModelDir, Host string
	Port           int
	Served         []string
	Adapters       []string
	MaxModelLen    int
}

// newEngine is hidden: the stand-in engine is for the demonstration and for
// tests, and says so wherever it shows.
func newEngine(s *streams) *cobra.Command {
	var o engineOptions
	c := &cobra.Command{
		Use:    "engine MODEL_DIR",
		Short:  "Serve a tiny Llama-type model: the stand-in engine of demonstrations and tests",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.ModelDir = args[0]
			return runEngine(c.Context(), s, o)
		},
	}
	c.Flags().StringVar(&o.Host, "host", "127.0.0.1", "address to listen on")
	c.Flags().IntVar(&o.Port, "port", 8000, "port to listen on; 0 takes a free one")
	c.Flags().StringArrayVar(&o.Served, "served-model-name", nil, "name that the model is served under (repeatable)")
	c.Flags().StringArrayVar(&o.Adapters, "adapter", nil, "LoRA adapter as NAME=DIR (repeatable)")
	c.Flags().IntVar(&o.MaxModelLen, "max-model-len", 0, "longest prompt and answer in tokens; 0 is the model's own")
	return c
}

func runEngine(ctx context.Context, s *streams, o engineOptions) error {
	load := standin.LoadOptions{ServedModelNames: o.Served, MaxModelLen: o.MaxModelLen, Log: s.Err}
	for _, a := range o.Adapters {
		name, dir, ok := strings.Cut(a, "=")
		if !ok || name == "" || dir == "" {
			return usage(fmt.Errorf("--adapter %q is not NAME=DIR", a), "give a name and the adapter's folder")
		}
		load.Adapters = append(load.Adapters, standin.Adapter{Name: name, Dir: dir})
	}
	err := standin.Run(ctx, standin.Options{LoadOptions: load, ModelDir: o.ModelDir, Host: o.Host, Port: o.Port})
	if err == nil || errors.Is(err, context.Canceled) {
		return nil // ended by a signal after its requests were answered
	}
	if errext.Hint(err) == "" {
		err = errext.WithHint(err, "it serves a Llama-type repository with config.json, tokenizer.json and safetensors files, and refuses what vLLM refuses")
	}
	return err
}
