package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/drill"
	"drkit/internal/redact"
	"drkit/playbooks"
)

// httpStep sends one request and judges the answer.
type httpStep struct{ w *World }

// httpOptions are those of the step, and of a wait for an answer.
type httpOptions struct {
	URL        string               `yaml:"url"`
	URLEnv     string               `yaml:"url_env"` // the variable that holds a URL which is a secret
	Method     string               `yaml:"method" strict:"enum=GET|HEAD|POST|PUT|PATCH|DELETE"`
	Headers    map[string]string    `yaml:"headers"`
	HeadersEnv map[string]string    `yaml:"headers_env"` // header: the variable that holds its whole value
	Body       string               `yaml:"body"`
	Status     []int                `yaml:"status" strict:"min=100,max=599"` // any of these; none: 200
	Contains   string               `yaml:"contains"`                        // a text in the answer's body
	JSON       map[string]yaml.Node `yaml:"json"`                            // values in the answer by path: status.ready, data.0.id
	Within     time.Duration        `yaml:"within" strict:"min=100ms"`       // for the whole answer; none: 30s
}

func (o httpOptions) method() string {
	if o.Method == "" {
		return http.MethodGet
	}
	return o.Method
}

// asks says that the request only asks: its method changes nothing by its meaning.
func (o httpOptions) asks() bool {
	return o.method() == http.MethodGet || o.method() == http.MethodHead
}

func (o httpOptions) statuses() []int {
	if len(o.Status) == 0 {
		return []int{http.StatusOK}
	}
	return o.Status
}

func (o httpOptions) within() time.Duration {
	if o.Within == 0 {
		return 30 * time.Second
	}
	return o.Within
}

func (o httpOptions) faults(s playbooks.Step) error { return o.faultsUnder(s, "with.") }

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// secretHeaders are those whose value is a secret in any case.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"}

func (o httpOptions) faultsUnder(s playbooks.Step, under string) error {
	var errs []error
	add := func(key, what, hint string) { errs = append(errs, s.Fault(under+key, what, hint)) }
	switch {
	case o.URL == "" && o.URLEnv == "":
		add("url", "is missing", "give url, or url_env for one that is a secret")
	case o.URL != "" && o.URLEnv != "":
		add("url_env", "says a second URL beside url", "keep one of the two")
	case o.URLEnv != "":
		errs = append(errs, nameFault(s, under+"url_env", o.URLEnv))
	default:
		if err := webURL(o.URL); err != nil {
			add("url", err.Error(), "")
		}
		errs = append(errs, plainFault(s, under+"url", o.URL, "take it from the environment: url_env"))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		v := o.Headers[name]
		if slices.Contains(secretHeaders, http.CanonicalHeaderKey(name)) {
			add("headers", name+" is a secret", "take it from the environment: headers_env: {"+name+": NAME}")
		}
		if strings.ContainsAny(v, "\r\n") {
			add("headers", name+" has more than one line", "")
		}
		errs = append(errs, plainFault(s, under+"headers", name+": "+v, "take it from the environment: headers_env"))
	}
	for _, name := range slices.Sorted(maps.Keys(o.HeadersEnv)) {
		errs = append(errs, nameFault(s, under+"headers_env", o.HeadersEnv[name]))
		if _, twice := o.Headers[name]; twice {
			add("headers_env", name+" is among the headers as well", "keep one of the two")
		}
	}
	for name := range maps.Keys(o.Headers) {
		if !headerName.MatchString(name) {
			add("headers", fmt.Sprintf("%q is not the name of a header", name), "")
		}
	}
	for name := range maps.Keys(o.HeadersEnv) {
		if !headerName.MatchString(name) {
			add("headers_env", fmt.Sprintf("%q is not the name of a header", name), "")
		}
	}
	errs = append(errs, plainFault(s, under+"body", o.Body, "a body with a secret is for a command: kind run"))
	if o.method() == http.MethodHead && (o.Contains != "" || len(o.JSON) > 0) {
		add("method", "HEAD has no body to look into", "use GET")
	}
	for path, want := range o.JSON {
		if want.Kind != yaml.ScalarNode {
			add("json", path+" is compared with a list or a mapping", "compare single values, each with its path")
		}
	}
	return errors.Join(errs...)
}

// webURL refuses what no request can be sent to.
func webURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL") // the parser's words could hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("is not an http or https URL")
	case u.User != nil:
		return errors.New("holds a user or password: take it from the environment, url_env or headers_env")
	}
	return nil
}

// name is the request for people: method and URL, or the variable that holds it.
func (o httpOptions) name() string {
	if o.URLEnv != "" {
		return o.method() + " $" + o.URLEnv
	}
	return o.method() + " " + o.URL
}

// request is what is sent, and what keeps its secrets out of texts.
type request struct {
	*http.Request
	hide *redact.Redactor
}

// request takes the secrets from the environment and makes the request.
func (w *World) request(ctx context.Context, o httpOptions) (request, error) {
	var errs []error
	var secrets []string
	env := w.lookup()
	target := o.URL
	if o.URLEnv != "" {
		v, err := env.secret(o.URLEnv)
		if err == nil && webURL(v) != nil {
			err = fmt.Errorf("the environment variable %s %w", o.URLEnv, webURL(v))
		}
		target, errs, secrets = v, append(errs, err), append(secrets, secretsOf(v)...)
	}
	header := http.Header{}
	for k, v := range o.Headers {
		header.Set(k, v)
	}
	for k, from := range o.HeadersEnv {
		v, err := env.secret(from)
		if err == nil && strings.ContainsAny(v, "\r\n\x00") {
			err = fmt.Errorf("the environment variable %s has more than one line: it cannot be a header", from)
		}
		header.Set(k, v)
		errs, secrets = append(errs, err), append(secrets, v)
	}
	if err := errors.Join(errs...); err != nil {
		return request{}, err
	}
	var body io.Reader
	if o.Body != "" {
		body = strings.NewReader(o.Body)
	}
	r, err := http.NewRequestWithContext(ctx, o.method(), target, body)
	if err != nil {
		return request{}, fmt.Errorf("%s: not a request that can be sent", o.name())
	}
	r.Header, r.Host = header, header.Get("Host")
	return request{r, w.conceal(secrets...)}, nil
}

// web is the client for places outside of the drill. It follows no redirect: the
// answer is judged, and headers go nowhere else.
func (w *World) web() *http.Client {
	c := w.Web
	if c == nil {
		c = w.HTTP
	}
	if c == nil {
		c = http.DefaultClient
	}
	still := *c
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &still
}

func (h httpStep) Check(ctx context.Context, s playbooks.Step) []error {
	o, err := h.options(s)
	if err != nil {
		return []error{err}
	}
	return h.w.askable(ctx, o)
}

// askable says why a request cannot be made as things are: one error for each thing that
// is missing.
func (w *World) askable(ctx context.Context, o httpOptions) (problems []error) {
	_, err := w.request(ctx, o)
	for _, err := range parts(err) {
		problems = append(problems, refuse(err, "set it where drkit runs"))
	}
	return problems
}

func (h httpStep) options(s playbooks.Step) (httpOptions, error) {
	var o httpOptions
	if err := s.Decode(&o); err != nil {
		return o, err
	}
	return o, o.faults(s)
}

func (h httpStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := h.options(s)
	if err != nil {
		return err
	}
	if !o.asks() {
		if err := sc.Emit(drill.TypeNote, drill.Note{Text: fmt.Sprintf("step %s sends a %s request: what it changes stays", s.ID, o.method())}); err != nil {
			return err
		}
	}
	observed, ok, err := h.w.ask(ctx, o)
	if err != nil {
		return err
	}
	return gate(sc, drill.Gate{
		ID: "http:" + s.ID, Title: "step " + s.ID + " is answered as expected", Expected: o.expected(), Observed: observed, Result: result(ok),
		Evidence: "the answer to one request", Hint: "send the same request by hand from where drkit runs",
	})
}

// expected says what ask looks for.
func (o httpOptions) expected() string {
	var statuses []string
	for _, n := range o.statuses() {
		statuses = append(statuses, strconv.Itoa(n))
	}
	text := fmt.Sprintf("%s answers %s", o.name(), strings.Join(statuses, " or "))
	if o.Contains != "" {
		text += fmt.Sprintf(" with %q", o.Contains)
	}
	for _, path := range slices.Sorted(maps.Keys(o.JSON)) {
		want := o.JSON[path]
		text += fmt.Sprintf(", %s is %s", path, want.Value)
	}
	return text
}

// maxAnswer is as much of an answer as is read, in bytes.
const maxAnswer = 1 << 20

// ask sends the request and says what came back. No answer is an observation; the
// error is for a request that could not be made, or was interrupted.
func (w *World) ask(ctx context.Context, o httpOptions) (observed string, ok bool, err error) {
	asked, cancel := context.WithTimeoutCause(ctx, o.within(), fmt.Errorf("no whole answer within %v", o.within()))
	defer cancel()
	r, err := w.request(asked, o)
	if err != nil {
		return "", false, refuse(err, "")
	}
	began := time.Now()
	resp, err := w.web().Do(r.Request)
	var body []byte
	if err == nil {
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	}
	switch {
	case err != nil && interrupted(ctx):
		return "", false, context.Cause(ctx)
	case err != nil:
		return "no answer: " + r.hide.String(withoutURL(asked, err).Error()), false, nil
	}
	red := o.red(resp.StatusCode, body, r.hide)
	observed = fmt.Sprintf("status %d after %v", resp.StatusCode, time.Since(began).Round(time.Millisecond))
	if len(red) == 0 {
		return observed, true, nil
	}
	if o.Contains == "" && len(o.JSON) == 0 && len(body) > 0 {
		red = append(red, "it says "+strconv.Quote(drill.Clip(strings.ToValidUTF8(r.hide.String(string(body)), "\uFFFD"), 200)))
	}
	return r.hide.String(observed + "; " + strings.Join(red, "; ")), false, nil
}

// withoutURL takes the URL, which may be a secret, out of a client's error, and says
// why a context ended.
func withoutURL(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// red is everything about an answer that is not as expected. Texts are cleared of
// secrets before they are cut or quoted: afterwards nobody would know them.
func (o httpOptions) red(status int, body []byte, hide *redact.Redactor) (red []string) {
	if !slices.Contains(o.statuses(), status) {
		red = append(red, "another status was expected")
	}
	cut := len(body) > maxAnswer
	if o.Contains != "" && !bytes.Contains(body, []byte(o.Contains)) {
		text := "the text is not in the answer"
		if cut {
			text = fmt.Sprintf("the text is not in the answer's first %d bytes", maxAnswer)
		}
		red = append(red, text)
	}
	if len(o.JSON) == 0 {
		return red
	}
	if cut {
		return append(red, fmt.Sprintf("the answer is longer than %d bytes: its JSON was not read", maxAnswer))
	}
	var content any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&content); err != nil || d.More() {
		return append(red, "the answer is not JSON")
	}
	for _, path := range slices.Sorted(maps.Keys(o.JSON)) {
		want := o.JSON[path]
		got, there := find(content, path)
		switch {
		case !there:
			red = append(red, path+" is not there")
		case !equalScalar(got, want):
			red = append(red, fmt.Sprintf("%s is %s, not %s", path, drill.Clip(hide.String(text(got)), 100), want.Value))
		}
	}
	return red
}

// find walks a path such as data.0.id into decoded JSON.
func find(content any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch c := content.(type) {
		case map[string]any:
			v, there := c[key]
			if !there {
				return nil, false
			}
			content = v
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(c) {
				return nil, false
			}
			content = c[n]
		default:
			return nil, false
		}
	}
	return content, true
}

// equalScalar compares a value of the answer with the playbook's: of the same type,
// numbers by value.
func equalScalar(got any, want yaml.Node) bool {
	switch tag := want.ShortTag(); v := got.(type) {
	case nil:
		return tag == "!!null"
	case bool:
		var b bool
		return tag == "!!bool" && want.Decode(&b) == nil && b == v
	case json.Number:
		a, okA := number(json.Number(want.Value))
		b, okB := number(v)
		return (tag == "!!int" || tag == "!!float") && okA && okB && a.Cmp(b) == 0
	case string:
		return (tag == "!!str" || tag == "!!timestamp") && v == want.Value
	}
	return false
}

// number is exact, and refuses an exponent that would fill the memory.
func number(n json.Number) (*big.Rat, bool) {
	if len(n) > 100 || strings.ContainsAny(string(n), "eE") {
		f, err := n.Float64()
		if err != nil {
			return nil, false
		}
		return new(big.Rat).SetFloat64(f), true
	}
	return new(big.Rat).SetString(string(n))
}

// text is a value of the answer for people.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}
