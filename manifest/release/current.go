package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
)

// CurrentSchema names the format of CURRENT.
const CurrentSchema = "drkit.current/1.0"

// currentLimit is the greatest CURRENT in bytes that is read.
const currentLimit = 64 << 10

// Current says which release a region holds whole. It is drkit's record, not a
// deployment mechanism.
type Current struct {
	Schema     string `json:"schema"`
	Region     string `json:"region"`
	Service    string `json:"service"`
	Release    string `json:"release"`
	Generation int64  `json:"generation"` // counts the writes, from 1

	ETag string `json:"-"` // of the record that was read, for a conditional write
}

// State is what CURRENT is read from.
type State interface {
	store.Source
	store.Stater
}

// CurrentKey is where a region's state holds a service's CURRENT.
func CurrentKey(region, service string) string { return region + "/" + service + "/CURRENT" }

// Encode writes the record.
func (c Current) Encode() []byte {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic(err) // strings and a number
	}
	return append(data, '\n')
}

// ReadCurrent reads the record of a service in a region. One that is not there
// is store.ErrNotFound; one of another region or service, or with anything in it
// that this version does not know, is refused.
func ReadCurrent(ctx context.Context, s State, region, service string) (Current, error) {
	if err := errors.Join(checkName("region", region), checkName("service", service)); err != nil {
		return Current{}, err
	}
	key := CurrentKey(region, service)
	// The ETag first: when the record changes between the two, a write on its
	// condition fails.
	o, err := s.Stat(ctx, key)
	if err != nil {
		return Current{}, fmt.Errorf("reading CURRENT of %s in %s: %w", service, region, err)
	}
	data, err := store.ReadAll(ctx, s, o, currentLimit)
	if err != nil {
		return Current{}, fmt.Errorf("reading CURRENT of %s in %s: %w", service, region, err)
	}
	c, err := decodeCurrent(data)
	if err == nil {
		err = c.check(region, service)
	}
	if err != nil {
		return Current{}, errext.WithHint(fmt.Errorf("CURRENT of %s in %s (%s): %w", service, region, key, untrusted{err}),
			"nothing is done on a record that cannot be trusted: find out who wrote it, remove it, and run drkit replicate to write it anew")
	}
	c.ETag = o.ETag
	return c, nil
}

// ErrUntrusted is a CURRENT that was read and is not the record that drkit wrote
// for this region and service.
var ErrUntrusted = errors.New("a CURRENT that cannot be trusted")

// untrusted makes an error an ErrUntrusted without changing its words.
type untrusted struct{ error }

func (untrusted) Is(target error) bool { return target == ErrUntrusted }
func (u untrusted) Unwrap() error      { return u.error }

func decodeCurrent(data []byte) (Current, error) {
	var c Current
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("it is not the JSON of such a record: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("something follows the record")
	}
	// The decoder lets a field stand twice or in other letters; two readers could
	// then see two releases in one record.
	var have, want bytes.Buffer
	if err := errors.Join(json.Compact(&have, data), json.Compact(&want, c.Encode())); err != nil || !bytes.Equal(have.Bytes(), want.Bytes()) {
		return c, errors.New("it is not in the form that drkit writes: a field is missing, stands twice or in another place or spelling")
	}
	return c, nil
}

func (c Current) check(region, service string) error {
	switch {
	case c.Schema != CurrentSchema:
		return fmt.Errorf("its schema is %q, want %s", c.Schema, CurrentSchema)
	case c.Region != region:
		return fmt.Errorf("it belongs to the region %q", c.Region)
	case c.Service != service:
		return fmt.Errorf("it belongs to the service %q", c.Service)
	case c.Generation < 1:
		return fmt.Errorf("its generation is %d", c.Generation)
	}
	return CheckNames(service, c.Release)
}

// LoadCurrent reads CURRENT and the manifest of the release that it names, which
// must be in the region's store.
func LoadCurrent(ctx context.Context, state State, s store.Source, region, service string) (Current, *manifest.Manifest, error) {
	c, err := ReadCurrent(ctx, state, region, service)
	if err != nil {
		return c, nil, err
	}
	m, err := Load(ctx, s, service, c.Release)
	if err != nil {
		// %v: this is a broken region, not a service without a CURRENT.
		return c, nil, errext.WithHint(fmt.Errorf("CURRENT of %s in %s names a release that cannot be loaded: %v", service, region, err),
			"run drkit replicate to restore the release in this region")
	}
	return c, m, nil
}
