package step

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"drkit/internal/redact"
	"drkit/playbooks"
)

// lookup finds a variable of the environment, as os.LookupEnv does.
type lookup func(name string) (value string, found bool)

// lookup is the environment that the steps of a playbook may take variables from.
func (w *World) lookup() lookup {
	if w.LookupEnv != nil {
		return w.LookupEnv
	}
	return os.LookupEnv
}

// minSecret is the shortest value that can be kept out of texts: a shorter one
// could not be told from ordinary words.
const minSecret = 8

// secretOf takes a secret from the environment.
func (l lookup) secret(name string) (string, error) {
	v, err := l.value(name)
	if err == nil && len(v) < minSecret {
		err = fmt.Errorf("the environment variable %s is shorter than %d bytes: as a secret it could not be kept out of the journal", name, minSecret)
	}
	return v, err
}

func (l lookup) value(name string) (string, error) {
	v, found := l(name)
	if !found || v == "" {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	return v, nil
}

// pieces are the parts of a secret that a program may print alone: its lines, and
// its words, as in "Bearer …"; each also as it stands inside a quoted text or JSON.
func pieces(secrets ...string) (all []string) {
	for _, s := range secrets {
		all = append(append(all, s), strings.Fields(s)...)
		for line := range strings.Lines(s) {
			all = append(all, strings.TrimRight(line, "\r\n"))
		}
	}
	for _, piece := range all {
		if quoted := strconv.Quote(piece); quoted != `"`+piece+`"` {
			all = append(all, quoted[1:len(quoted)-1])
		}
	}
	return all
}

// conceal keeps secrets out of everything that drkit writes from now on, and
// returns what keeps them out of the step's own texts.
func (w *World) conceal(secrets ...string) *redact.Redactor {
	if w.Redact != nil {
		w.Redact.Add(pieces(secrets...)...)
	}
	return redact.New(pieces(secrets...)...)
}

// secretsOf are the parts of a URL from the environment that must not be shown: the
// whole, and what comes after the host. A host alone is none: the journal needs it
// to take changes back.
func secretsOf(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil || strings.Trim(u.RequestURI(), "/") == "" {
		return nil
	}
	return []string{raw, u.RequestURI(), strings.TrimPrefix(u.RequestURI(), "/")}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// nameFault refuses what is no name of a variable, or one that drkit sets itself.
func nameFault(s playbooks.Step, key, name string) error {
	switch {
	case !variable.MatchString(name):
		return s.Fault(key, fmt.Sprintf("%q is not the name of an environment variable", name), "letters, digits and _")
	case strings.HasPrefix(name, "DRKIT_"):
		return s.Fault(key, fmt.Sprintf("%s is set by drkit", name), "names that begin with DRKIT_ are its own")
	}
	return nil
}

// plainFault refuses a text of the playbook that looks like a secret: the journal
// keeps texts, and would keep another one than the playbook has.
func plainFault(s playbooks.Step, key, text, instead string) error {
	var known *redact.Redactor
	switch {
	case strings.ContainsRune(text, 0):
		return s.Fault(key, "holds a zero byte", "")
	case known.String(text) != text:
		return s.Fault(key, "holds what looks like a secret", instead)
	}
	return nil
}
