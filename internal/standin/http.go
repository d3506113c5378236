package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"drkit/internal/openai"
)

const (
	owner   = "drkit stand-in engine"
	maxBody = 32 << 20 // bytes of a request
)

// Handler serves the API. Paths that vLLM has and this engine lacks are 404.
func (e *Engine) Handler() http.Handler {
	type route struct {
		method string
		serve  http.HandlerFunc
	}
	routes := map[string]route{
		"/health":              {http.MethodGet, e.serveHealth},
		"/version":             {http.MethodGet, serveVersion},
		"/metrics":             {http.MethodGet, e.serveMetrics},
		"/v1/models":           {http.MethodGet, e.serveModels},
		"/tokenize":            {http.MethodPost, e.serveTokenize},
		"/v1/completions":      {http.MethodPost, e.serveCompletion},
		"/v1/chat/completions": {http.MethodPost, e.serveChat},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt, ok := routes[r.URL.Path]
		switch {
		case !ok:
			writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		case r.Method != rt.method:
			writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			rt.serve(w, r)
		}
	})
}

func (e *Engine) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if e.dead.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": Version})
}

func (e *Engine) serveModels(w http.ResponseWriter, _ *http.Request) {
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	add := func(id, root string, parent *string, length *int) {
		list.Data = append(list.Data, openai.Model{ID: id, Object: "model", Created: e.created, OwnedBy: owner, Root: root, Parent: parent, MaxModelLen: length})
	}
	for _, n := range e.names {
		add(n, e.dir, nil, &e.maxModelLen)
	}
	for _, a := range e.adapters {
		add(a.name, a.dir, &e.names[0], nil)
	}
	writeJSON(w, http.StatusOK, list)
}

// apiError is an answer that is not 200, in vLLM's shape.
type apiError struct {
	code    int
	message string
	param   *string
}

func (a *apiError) Error() string { return a.message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{code: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func (a *apiError) body() openai.ErrorBody {
	kind := map[int]string{http.StatusBadRequest: "BadRequestError", http.StatusNotFound: "NotFoundError", http.StatusInternalServerError: "InternalServerError"}[a.code]
	return openai.ErrorBody{Error: openai.ErrorDetail{Message: a.message, Type: kind, Param: a.param, Code: a.code}}
}

func writeError(w http.ResponseWriter, err error) {
	var a *apiError
	if !errors.As(err, &a) {
		a = &apiError{code: http.StatusInternalServerError, message: err.Error()}
	}
	writeJSON(w, a.code, a.body())
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone is no error of ours
}

// readJSON reads a request's body; unknown fields are ignored, as in vLLM.
func readJSON(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return badRequest("reading the request: %v", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return badRequest("the request is not the JSON expected: %v", err)
	}
	return nil
}

// pickModel finds what a request's model names; an empty name is the base.
func (e *Engine) pickModel(name string) (*adapter, error) {
	if e.dead.Load() {
		return nil, &apiError{code: http.StatusInternalServerError, message: errDead.Error()}
	}
	ad, ok := e.find(name)
	if !ok {
		return nil, &apiError{code: http.StatusNotFound, param: openai.Ptr("model"),
			message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", name, strings.Join(e.names, ", "))}
	}
	return ad, nil
}
