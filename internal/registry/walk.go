package registry

import (
	"context"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"drkit/internal/errext"
	"drkit/manifest/digest"
)

// walk goes from an image's index down to its layers and notes what is wrong.
type walk struct {
	Presence
	s      *session
	seen   map[string]bool // digests that were asked for: platforms share layers
	unread []blob          // layers to hash
}

// blob is a layer and what people call it.
type blob struct {
	v1.Descriptor
	what string
}

// check walks the image in the time that one may take. Layers are read after that:
// they may take longer, and are watched one by one.
func (w *walk) check(ctx context.Context, c *Client, i Image, m Mapping) {
	within, cancel := c.within(ctx)
	defer cancel()
	w.image(within, c, i, m)
	for _, b := range w.unread {
		w.read(ctx, b)
	}
}

func (w *walk) image(ctx context.Context, c *Client, i Image, m Mapping) {
	repo, err := m.Place(i)
	if err != nil {
		w.fault(i.Reference, err)
		return
	}
	if w.At = repo.Name(); i.Digest == (digest.Digest{}) {
		w.add("image", Unknown, "it is named by a tag that was not resolved, so that no digest can be looked for", "pin the image, or build the manifest with --resolve-images")
		return
	}
	w.At += "@" + i.Digest.String()
	w.Foreign = !m.Holds(repo)
	if w.s, err = c.open(ctx, repo); err != nil {
		w.fault("image", err)
		return
	}
	w.document(ctx, v1.Hash{Algorithm: i.Digest.Algorithm, Hex: i.Digest.Hex}, "", maxDepth)
	if ref, err := name.NewTag(i.Reference); err == nil && !strings.Contains(i.Reference, "@") {
		w.tag(ctx, ref.TagStr(), i.Digest)
	}
}

// tag looks at what the region would start by a reference that is not pinned.
func (w *walk) tag(ctx context.Context, tag string, want digest.Digest) {
	d, err := w.s.manifest(ctx, tag)
	switch {
	case err != nil:
		w.fault("tag "+tag, err)
	case d.digest != want:
		w.add("tag "+tag, Diverged, "it leads to "+d.digest.String()+" here", "push the tag again, or pin the image by digest in the deploy files")
	}
}

// document is one index or manifest with all that lies below it.
func (w *walk) document(ctx context.Context, id v1.Hash, of string, depth int) {
	if w.known(id) {
		return
	}
	d, err := w.s.manifest(ctx, id.String())
	if err != nil {
		w.fault(describe("manifest", id, of), err)
		return
	}
	w.Objects++
	if d.media.IsIndex() {
		w.index(ctx, d, depth)
		return
	}
	m, err := w.s.image(d)
	if err != nil {
		w.fault(describe("manifest", id, of), err)
		return
	}
	if m.Config.MediaType.IsConfig() {
		w.config(ctx, m.Config, of)
	} else { // of an artifact: of any size
		w.layer(ctx, m.Config, of)
	}
	for _, l := range m.Layers {
		w.layer(ctx, l, of)
	}
}

func (w *walk) index(ctx context.Context, d document, depth int) {
	index, err := w.s.index(d)
	if err == nil && depth == 0 {
		err = newError(Untrue, nil, "%s has indexes inside of indexes, more than %d deep", w.s.host(), maxDepth)
	}
	if err != nil {
		w.fault("index "+d.digest.String(), err)
		return
	}
	for _, m := range index.Manifests {
		of := ""
		if m.Platform != nil {
			of = m.Platform.String()
		}
		if !m.MediaType.IsIndex() && !m.MediaType.IsImage() {
			w.layer(ctx, m, of) // whatever it is, a copy holds it as bytes
			continue
		}
		w.document(ctx, m.Digest, of, depth-1)
	}
}

func (w *walk) config(ctx context.Context, d v1.Descriptor, of string) {
	if w.known(d.Digest) {
		return
	}
	if _, err := w.s.config(ctx, d); err != nil {
		w.fault(describe("configuration", d.Digest, of), err)
		return
	}
	w.Objects++
}

func (w *walk) layer(ctx context.Context, d v1.Descriptor, of string) {
	if w.known(d.Digest) {
		return
	}
	what := describe("layer", d.Digest, of)
	if len(d.URLs) > 0 && !d.MediaType.IsDistributable() {
		w.Elsewhere = append(w.Elsewhere, what)
		return
	}
	if w.Hashed {
		w.unread = append(w.unread, blob{d, what})
		return
	}
	size, err := w.s.size(ctx, d.Digest)
	switch {
	case err != nil:
		w.fault(what, err)
	case size < 0:
		w.add(what, Unknown, w.s.host()+" does not say its size", "")
	case size != d.Size:
		w.add(what, Diverged, "it has another size here than in the image's manifest", "push the layer again")
	default:
		w.Objects++
		w.Size += d.Size
	}
}

// read hashes a layer.
func (w *walk) read(ctx context.Context, b blob) {
	n, err := w.s.hash(ctx, b.Descriptor)
	if w.Bytes += n; err != nil {
		w.fault(b.what, err)
		return
	}
	w.Objects++
	w.Size += b.Size
}

// known marks a digest as asked for.
func (w *walk) known(d v1.Hash) bool {
	key := d.String()
	if w.seen[key] {
		return true
	}
	w.seen[key] = true
	return false
}

// fault notes an error: what is not there is missing, what lies has diverged, the
// rest could not be asked.
func (w *walk) fault(object string, err error) {
	verdict := Unknown
	switch ClassOf(err) {
	case NotFound:
		verdict = Missing
	case Untrue:
		verdict = Diverged
	}
	w.add(object, verdict, err.Error(), errext.Hint(err))
}

func (w *walk) add(object string, v Verdict, why, hint string) {
	w.Faults = append(w.Faults, Fault{Object: strings.TrimSpace(object), Verdict: v, Why: why, Hint: hint})
}
