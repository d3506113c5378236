package registry

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"drkit/manifest/digest"
)

// maxDocument bounds a manifest or an image's configuration, in bytes. Registries
// take manifests of 4 MiB and more seldom.
const maxDocument = 8 << 20

// acceptable are the types of manifests that are understood.
var acceptable = []types.MediaType{types.OCIImageIndex, types.OCIManifestSchema1, types.DockerManifestList, types.DockerManifestSchema2}

// document is an index or a manifest with the digest of its bytes.
type document struct {
	raw    []byte
	digest digest.Digest
	media  types.MediaType
}

// manifest reads an index or a manifest by tag or digest. What is asked for by
// digest has it, and what the registry says of the digest is true.
func (s *session) manifest(ctx context.Context, id string) (document, error) {
	resp, err := s.do(ctx, http.MethodGet, "manifests", id)
	if err != nil {
		return document{}, err
	}
	defer resp.Body.Close()
	raw, err := s.read(resp, id)
	if err != nil {
		return document{}, err
	}
	asked, err := digest.Parse(id)
	byDigest := err == nil
	d := document{raw: raw, digest: sum(raw, asked.Algorithm)}
	if byDigest && d.digest != asked {
		return document{}, newError(Untrue, nil, "%s answers with %s when it is asked for %s", s.host(), d.digest, asked)
	}
	if said, err := digest.Parse(resp.Header.Get("Docker-Content-Digest")); err == nil {
		if got := sum(raw, said.Algorithm); got != said {
			return document{}, newError(Untrue, nil, "%s says that %s is %s, and answers with %s", s.host(), id, said, got)
		}
	}
	d.media, err = s.mediaType(resp, raw, id)
	return d, err
}

// mediaType is what the document says of itself, else what the answer says. Two
// different claims would let two readers see two images.
func (s *session) mediaType(resp *http.Response, raw []byte, id string) (types.MediaType, error) {
	header, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var head struct {
		MediaType     types.MediaType `json:"mediaType"`
		SchemaVersion int             `json:"schemaVersion"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", newError(Untrue, err, "%s answers to %s with something that is no manifest", s.host(), id)
	}
	media, said := head.MediaType, types.MediaType(header)
	if media == "" {
		media = said
	}
	switch {
	case head.SchemaVersion == 1 || media.IsSchema1():
		return "", newError(Untrue, nil, "%s has %s in a format (schema 1) that runtimes no longer take", s.host(), id)
	case !media.IsIndex() && !media.IsImage():
		return "", newError(Untrue, nil, "%s answers to %s with neither an image nor an index", s.host(), id)
	case media.IsIndex() != said.IsIndex() && (said.IsIndex() || said.IsImage()):
		return "", newError(Untrue, nil, "%s calls %s a %s, and its content says %s", s.host(), id, said, media)
	}
	return media, nil
}

// config reads a small blob and proves that it is the described one.
func (s *session) config(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	resp, err := s.do(ctx, http.MethodGet, "blobs", d.Digest.String())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := s.read(resp, d.Digest.String())
	if err != nil {
		return nil, err
	}
	if got := sum(raw, d.Digest.Algorithm).String(); got != d.Digest.String() {
		return nil, newError(Untrue, nil, "%s answers with %s when it is asked for %s", s.host(), got, d.Digest)
	}
	return raw, nil
}

// size asks for a blob without reading it: its size in bytes, -1 when the
// registry does not say.
func (s *session) size(ctx context.Context, d v1.Hash) (int64, error) {
	resp, err := s.do(ctx, http.MethodHead, "blobs", d.String())
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.ContentLength, nil
}

// do asks; only status 200 is no error.
func (s *session) do(ctx context.Context, method, kind, id string) (*http.Response, error) {
	u := url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + kind + "/" + id}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if kind == "manifests" {
		for _, m := range acceptable {
			req.Header.Add("Accept", string(m))
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, classify(err, s.host())
	}
	err = transport.CheckError(resp, http.StatusOK)
	if err == nil {
		return resp, nil
	}
	resp.Body.Close()
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return nil, answered(e, s.host(), true)
	}
	return nil, classify(err, s.host())
}

func (s *session) read(resp *http.Response, id string) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, classify(err, s.host())
	}
	if len(raw) > maxDocument {
		return nil, newError(Untrue, nil, "%s answers to %s with more than %d MiB", s.host(), id, maxDocument>>20)
	}
	return raw, nil
}

func (s *session) host() string { return s.repo.RegistryStr() }

// sum is the digest of raw by sha512, where that is asked for, else sha256.
func sum(raw []byte, algorithm string) digest.Digest {
	if strings.EqualFold(algorithm, digest.SHA512) {
		h := sha512.Sum512(raw)
		return digest.Digest{Algorithm: digest.SHA512, Hex: hex.EncodeToString(h[:])}
	}
	h := sha256.Sum256(raw)
	return digest.Digest{Algorithm: digest.SHA256, Hex: hex.EncodeToString(h[:])}
}
