package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/internal/redact"
	"drkit/playbooks"
)

// notify tells people through a webhook.
type notify struct{ w *World }

// notifyOptions are those of the step.
type notifyOptions struct {
	URLEnv   string `yaml:"url_env" strict:"required"`       // the variable that holds the webhook's URL, which is a secret
	Message  string `yaml:"message" strict:"required"`       // with {{placeholders}}
	Format   string `yaml:"format" strict:"enum=slack|json"` // slack: {"text": …}, which others take too; json: more beside it
	Required bool   `yaml:"required"`                        // whether the run may go on without it; none: it may not
}

func (n notify) options(s playbooks.Step) (notifyOptions, error) {
	o := notifyOptions{Format: "slack", Required: true}
	if err := s.Decode(&o); err != nil {
		return o, err
	}
	return o, o.faults(s)
}

var placeholder = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)

// places are what a message may name.
var places = []string{"service", "mode", "run", "source", "target", "step"}

func (o notifyOptions) faults(s playbooks.Step) error {
	errs := []error{nameFault(s, "with.url_env", o.URLEnv), plainFault(s, "with.message", o.Message, "a message goes to many people")}
	for _, m := range placeholder.FindAllStringSubmatch(o.Message, -1) {
		if !slices.Contains(places, m[1]) {
			errs = append(errs, s.Fault("with.message", fmt.Sprintf("%q is not a placeholder", m[0]), "they are "+strings.Join(places, ", ")))
		}
	}
	return errors.Join(errs...)
}

// Check needs the webhook only of a notification that is required.
func (n notify) Check(_ context.Context, s playbooks.Step) []error {
	o, err := n.options(s)
	if err == nil && o.Required {
		if _, missing := n.url(o); missing != nil {
			err = refuse(missing, "set it where drkit runs, or let the run go on without it: required: false")
		}
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

func (n notify) url(o notifyOptions) (string, error) {
	u, err := n.w.lookup().secret(o.URLEnv)
	if err == nil && webURL(u) != nil {
		err = fmt.Errorf("the environment variable %s %w", o.URLEnv, webURL(u))
	}
	return u, err
}

// to is who is notified, for people: the playbook's word, else the variable.
func (o notifyOptions) to(s playbooks.Step) string {
	if s.Who != "" {
		return s.Who
	}
	return "$" + o.URLEnv
}

// message begins with mode and run, so that nobody takes a rehearsal for the real thing.
func (n notify) message(o notifyOptions, s playbooks.Step, run string) (string, map[string]string) {
	mode := n.w.Mode
	if mode == "" {
		mode = playbooks.Rehearsal
	}
	values := map[string]string{"service": n.w.Service, "mode": mode, "run": run, "source": n.w.Source.Name, "target": n.w.Target.Name, "step": s.ID}
	text := placeholder.ReplaceAllStringFunc(o.Message, func(hit string) string { return values[placeholder.FindStringSubmatch(hit)[1]] })
	return fmt.Sprintf("[drkit %s %s] %s", mode, run, text), values
}

func (n notify) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := n.options(s)
	if err != nil {
		return err
	}
	to := o.to(s)
	message, values := n.message(o, s, sc.RunID())
	why := n.send(ctx, o, message, values)
	if interrupted(ctx) {
		return context.Cause(ctx)
	}
	told := drill.Notified{To: to, Text: message, Delivered: why == ""}
	told.Why = why
	if err := sc.Emit(drill.TypeNotified, told); err != nil {
		return err
	}
	if why != "" && !o.Required {
		return sc.Emit(drill.TypeNote, drill.Note{Text: fmt.Sprintf("%s was not notified by step %s: %s; the playbook goes on without it", to, s.ID, why)})
	}
	observed := "the webhook took it"
	if why != "" {
		observed = why
	}
	return gate(sc, drill.Gate{
		ID: "notify:" + s.ID, Title: to + " is notified", Expected: "the webhook answers 2xx", Observed: observed, Result: result(why == ""),
		Evidence: "the webhook's answer; whether anybody read it is not known", Hint: "tell them another way; with required: false the run goes on without it",
	})
}

// notifyWithin bounds the delivery: a webhook that hangs must not hold a recovery.
const notifyWithin = 10 * time.Second

// send delivers the message; the reason why it was not delivered holds no secret.
func (n notify) send(ctx context.Context, o notifyOptions, message string, values map[string]string) (why string) {
	target, err := n.url(o)
	if err != nil {
		return err.Error()
	}
	hide := n.w.conceal(secretsOf(target)...)
	content := map[string]string{"text": message}
	if o.Format == "json" {
		for k, v := range values {
			content[k] = v
		}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, notifyWithin, fmt.Errorf("no answer within %v", notifyWithin))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return "the webhook's URL cannot be used"
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := n.w.web().Do(r)
	if err != nil {
		return hide.String("no answer: " + withoutURL(ctx, err).Error())
	}
	defer resp.Body.Close()
	return refusal(ctx, resp, hide)
}

// refusal is why an answer is none of success, "" when it is one.
func refusal(ctx context.Context, resp *http.Response, hide *redact.Redactor) string {
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return hide.String(fmt.Sprintf("the webhook answered %d: %q", resp.StatusCode, drill.Clip(strings.ToValidUTF8(hide.String(string(said)), "\uFFFD"), 200)))
	case err != nil:
		return hide.String("the answer broke off: " + withoutURL(ctx, err).Error())
	}
	return ""
}
