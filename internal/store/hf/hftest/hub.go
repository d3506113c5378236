// Package hftest is a stand-in for a model hub in tests: the endpoints that
// huggingface_hub 2.4.0 itself needs to download a repository, with the faults
// that a test asks for.
package hftest

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Commit is the only one of the repository; its branch is main.
const Commit = "3f1c0d9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e"

// Hub answers as the hub does for one repository. It is an http.Handler.
type Hub struct {
	Repo     string            // org/name; acme/tiny when empty
	Files    map[string][]byte // by path; *.safetensors are LFS files
	PageSize int               // of the listing; 0: everything on one page
	Token    string            // needed, unless empty
	Storage  string            // base URL of another Hub that reads are redirected to; empty: none
	NoRanges bool              // ranges are ignored
	Damage   map[string][]byte // by path: sent in place of the right bytes
	// Answer, when it is set, is asked first; true: it has answered.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu   sync.Mutex
	seen []string
}

func (h *Hub) repo() string { return cmp.Or(h.Repo, "acme/tiny") }

func gitBlob(data []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
	return hex.EncodeToString(sum[:])
}

// Item is an entry of the tree API.
func Item(path string, data []byte) map[string]any {
	if !strings.HasSuffix(path, ".safetensors") {
		return map[string]any{"type": "file", "path": path, "size": len(data), "oid": gitBlob(data)}
	}
	sum := sha256.Sum256(data)
	oid := hex.EncodeToString(sum[:])
	pointer := fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(data))
	return map[string]any{"type": "file", "path": path, "size": len(data), "oid": gitBlob(pointer),
		"lfs":     map[string]any{"oid": oid, "size": len(data), "pointerSize": len(pointer)},
		"xetHash": strings.Repeat("0", 64)} // never to be compared
}

// Requests is the path of each request so far, with its Authorization header.
func (h *Hub) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// ServeHTTP answers the API, the content and, as a storage, redirected reads.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, strings.TrimSpace(fmt.Sprintf("%s %s", r.URL.Path, r.Header.Get("Authorization"))))
	h.mu.Unlock()
	if h.Answer != nil && h.Answer(w, r) {
		return
	}
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	switch path := r.URL.Path; {
	case path == "/api/models/"+h.repo()+"/revision/main":
		fmt.Fprintf(w, `{"id":%q,"sha":%q}`, h.repo(), Commit)
	case path == "/api/models/"+h.repo()+"/tree/"+Commit:
		h.tree(w, r)
	case strings.HasPrefix(path, "/"+h.repo()+"/resolve/"+Commit+"/"):
		h.resolve(w, r, strings.TrimPrefix(path, "/"+h.repo()+"/resolve/"+Commit+"/"))
	case strings.HasPrefix(path, "/storage/"):
		h.content(w, r, strings.TrimPrefix(path, "/storage/"))
	default:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "{}", http.StatusNotFound)
	}
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request) {
	items := []map[string]any{{"type": "directory", "path": "a folder", "size": 0, "oid": strings.Repeat("a", 40)}}
	for path, data := range h.Files {
		items = append(items, Item(path, data))
	}
	slices.SortFunc(items, func(a, b map[string]any) int { return strings.Compare(a["path"].(string), b["path"].(string)) })
	if h.PageSize > 0 {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		to := min(from+h.PageSize, len(items))
		if to < len(items) { // absolute and under the hub's own name, as a mirror passes it on
			w.Header().Set("Link", fmt.Sprintf(`<https://hub.invalid%s?recursive=true&cursor=%d>; rel="next"`, r.URL.Path, to))
		}
		items = items[from:to]
	}
	_ = json.NewEncoder(w).Encode(items)
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, path string) {
	if _, ok := h.Files[path]; !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", Commit)
	if h.Storage != "" {
		http.Redirect(w, r, h.Storage+"/storage/"+(&url.URL{Path: path}).EscapedPath()+"?X-Amz-Signature=secretsignature", http.StatusFound)
		return
	}
	h.content(w, r, path)
}

func (h *Hub) content(w http.ResponseWriter, r *http.Request, path string) {
	data := h.Files[path]
	if wrong, ok := h.Damage[path]; ok {
		data = wrong
	}
	var from, to int
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); n == 2 && !h.NoRanges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
		w.WriteHeader(http.StatusPartialContent)
		data = data[from : to+1]
	}
	_, _ = w.Write(data)
}
