package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"drkit/drill/routing"
	"drkit/internal/openai"
	"drkit/manifest/region"
)

// promptOf gives the prefix blocks of a request's body; none when its prompt
// cannot be seen. Such a request is passed on all the same: what is wrong with it
// is for the engine to say.
type promptOf func(o Options, body []byte) []routing.Block

func completionPrompt(o Options, body []byte) []routing.Block {
	var c struct {
		Model  string
		Prompt openai.Prompt
	}
	if json.Unmarshal(body, &c) != nil {
		return nil
	}
	if c.Prompt.IDs != nil {
		return routing.TokenBlocks(c.Model, c.Prompt.IDs, o.BlockTokens)
	}
	return routing.TextBlocks(c.Model, c.Prompt.Text, o.BlockBytes)
}

// chatPrompt takes the messages as text, role by role; how the engine's template
// will render them does not matter to which beginnings are equal.
func chatPrompt(o Options, body []byte) []routing.Block {
	var c struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if json.Unmarshal(body, &c) != nil {
		return nil
	}
	var text strings.Builder
	for _, m := range c.Messages {
		text.WriteString(m.Role + "\x00" + string(m.Content) + "\x00")
	}
	return routing.TextBlocks(c.Model, text.String(), o.BlockBytes)
}

// bounds reads where a request may be answered. A header that is there and says
// nothing is an error, not a permission.
func (r *Router) bounds(h http.Header) (routing.Request, error) {
	values := h.Values(HeaderResidency)
	switch len(values) {
	case 0:
		return routing.Request{Bound: len(r.o.Residency) > 0, Allowed: r.o.Residency}, nil
	case 1:
	default:
		return routing.Request{}, fmt.Errorf("%s is there %d times", HeaderResidency, len(values))
	}
	req := routing.Request{Bound: true}
	for part := range strings.SplitSeq(values[0], ",") {
		res := strings.TrimSpace(part)
		if res == "" {
			return routing.Request{}, errors.New(HeaderResidency + ` has an empty residency: want "eu" or "eu,us"`)
		}
		req.Allowed = append(req.Allowed, region.Residency(res))
	}
	return req, nil
}
