package verify

import (
	"time"

	"drkit/internal/store"
)

// Identity tells two states of one object apart without reading it. The zero
// value is no identity: nothing can be known to be the same.
type Identity struct {
	Version string    `json:"version,omitempty"`
	ETag    string    `json:"etag,omitempty"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time,omitzero"`
	File    string    `json:"file,omitempty"` // of a directory's file: store.Identified
}

// identityOf is what a place says of an object's state.
func identityOf(s store.Source, o store.Object) Identity {
	id := Identity{Version: o.Version, ETag: o.ETag, Size: o.Size, ModTime: o.ModTime.UTC()}
	if f, ok := s.(store.Identified); ok {
		id.File, _ = f.Identity(o) // "" is no identity
	}
	return id
}

// Same reports whether both are surely one state of one object. A version that is
// no "null" (which an overwriting upload keeps) decides; else the ETag, size and
// time must be the same; else, in a directory, size, times and inode.
// Whatever is not said on either side makes it false.
func (a Identity) Same(b Identity) bool {
	if a.Size != b.Size {
		return false
	}
	if numbered(a.Version) && numbered(b.Version) {
		return a.Version == b.Version
	}
	if a.File != "" || b.File != "" {
		return a.File == b.File && a.ModTime.Equal(b.ModTime)
	}
	return a.Version == b.Version && a.ETag != "" && a.ETag == b.ETag && !a.ModTime.IsZero() && a.ModTime.Equal(b.ModTime)
}

// numbered reports whether a version id names exactly one upload.
func numbered(version string) bool { return version != "" && version != "null" }
