package hf

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// Options say how the hub is reached.
type Options struct {
	Endpoint  string            // base URL, DefaultEndpoint when empty
	Token     string            // sent to the endpoint's own host alone; empty: none
	Offline   bool              // the hub may not be asked: New refuses
	Transport http.RoundTripper // nil: one with time limits for connecting and for an answer's beginning
}

// FromEnv reads the variables that Hugging Face's own tools read: HF_ENDPOINT,
// HF_TOKEN (or HUGGING_FACE_HUB_TOKEN), HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE).
func FromEnv(getenv func(string) string) Options {
	o := Options{Endpoint: getenv("HF_ENDPOINT"), Token: strings.TrimSpace(getenv("HF_TOKEN"))}
	if o.Token == "" {
		o.Token = strings.TrimSpace(getenv("HUGGING_FACE_HUB_TOKEN"))
	}
	offline := getenv("HF_HUB_OFFLINE")
	if offline == "" {
		offline = getenv("TRANSFORMERS_OFFLINE")
	}
	o.Offline = slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(offline))
	return o
}

// Hub is one commit of a model repository on a hub, as a source. Nothing is
// asked before the first List, Open, Stat or Pin. It is safe for concurrent use.
type Hub struct {
	client   *client
	repo     string // org/name
	revision string // as it was asked for

	mu     sync.Mutex
	commit string // "" until it is resolved
	files  []file // sorted; nil until they are listed
	index  map[string]file
}

var (
	_ store.Source  = (*Hub)(nil)
	_ store.Stater  = (*Hub)(nil)
	_ store.Pinned  = (*Hub)(nil)
	_ store.Located = (*Hub)(nil)
)

var repoForm = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// New prepares org/name@revision; without a revision it is main.
func New(spec string, o Options) (*Hub, error) {
	repo, revision, given := strings.Cut(spec, "@")
	if !given {
		revision = "main"
	}
	if !repoForm.MatchString(repo) || revision == "" || strings.Contains(repo, "..") {
		return nil, errext.WithStatus(errext.WithHint(fmt.Errorf("hf://%s is no model of a hub", spec), "write hf://org/name@revision"), errext.Usage)
	}
	if o.Offline {
		return nil, errext.WithStatus(errext.WithHint(fmt.Errorf("hf://%s was not asked for: HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set", spec),
			"unset it, or name the folder of the model in the local cache instead (…/hub/models--"+strings.ReplaceAll(repo, "/", "--")+")"), errext.Usage)
	}
	c, err := newClient(repo, o)
	if err != nil {
		return nil, err
	}
	return &Hub{client: c, repo: repo, revision: revision}, nil
}

// Pin resolves the revision to a commit, once.
func (h *Hub) Pin(ctx context.Context) (repo, commit string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	err = h.resolve(ctx)
	return h.repo, h.commit, err
}

// Commit is the commit that everything is read from, "" before it was resolved.
func (h *Hub) Commit() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commit
}

// Location is the URL of the repository at its revision.
func (h *Hub) Location() string {
	return h.client.base.String() + "/" + h.repo + "@" + h.revision
}

// resolve asks which commit the revision is. A full commit is what it is.
func (h *Hub) resolve(ctx context.Context) error {
	if h.commit != "" {
		return nil
	}
	if commitForm.MatchString(h.revision) {
		h.commit = h.revision
		return nil
	}
	var info struct {
		SHA string `json:"sha"`
	}
	if _, err := h.client.json(ctx, "/api/models/"+h.repo+"/revision/"+url.PathEscape(h.revision), "", &info); err != nil {
		return fmt.Errorf("resolving hf://%s@%s: %w", h.repo, h.revision, err)
	}
	if !commitForm.MatchString(info.SHA) {
		return fmt.Errorf("resolving hf://%s@%s: the hub's answer has the commit %.50q, not 40 digits", h.repo, h.revision, info.SHA)
	}
	h.commit = info.SHA
	return nil
}

// load lists the commit, once.
func (h *Hub) load(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files != nil {
		return nil
	}
	if err := h.resolve(ctx); err != nil {
		return err
	}
	files, err := h.tree(ctx)
	if err != nil {
		return fmt.Errorf("listing hf://%s@%s: %w", h.repo, h.commit, err)
	}
	h.index = make(map[string]file, len(files))
	for _, f := range files {
		h.index[f.key] = f
	}
	h.files = files
	return nil
}

// object is what the hub says of a file: its digest is a claim of the hub, made
// when the file was uploaded.
func (h *Hub) object(f file) store.Object {
	return store.Object{Key: f.key, Size: f.size, Version: h.commit, ETag: f.sum.Hex,
		Sums: []store.Sum{{Digest: f.sum, Evidence: store.Claimed}}}
}

// List yields the files of the commit.
func (h *Hub) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		err := store.CheckPrefix(prefix)
		if err == nil {
			err = h.load(ctx)
		}
		if err != nil {
			yield(store.Object{}, err)
			return
		}
		for _, f := range h.files { // never changed after load
			if err := context.Cause(ctx); err != nil {
				yield(store.Object{}, err)
				return
			}
			if strings.HasPrefix(f.key, prefix) && !yield(h.object(f), nil) {
				return
			}
		}
	}
}

func (h *Hub) find(ctx context.Context, key string) (file, error) {
	if err := store.CheckKey(key); err != nil {
		return file{}, err
	}
	if err := h.load(ctx); err != nil {
		return file{}, err
	}
	f, ok := h.index[key]
	if !ok {
		return file{}, fmt.Errorf("%s is not in hf://%s@%s: %w", key, h.repo, h.commit, store.ErrNotFound)
	}
	return f, nil
}

// Stat says what List says of one file.
func (h *Hub) Stat(ctx context.Context, key string) (store.Object, error) {
	f, err := h.find(ctx, key)
	if err != nil {
		return store.Object{}, err
	}
	return h.object(f), nil
}

// Open reads from the commit. A body that breaks off is asked for again from
// where it ended. What is read from beginning to end is hashed: other bytes than
// the commit's are a *store.MismatchError in place of io.EOF.
func (h *Hub) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	f, err := h.find(ctx, o.Key)
	if err != nil {
		return nil, err
	}
	if o.Version != "" && o.Version != h.commit {
		return nil, fmt.Errorf("%s: version %s is not the commit %s: %w", o.Key, o.Version, h.commit, store.ErrNotFound)
	}
	return h.read(ctx, f, off, n)
}
