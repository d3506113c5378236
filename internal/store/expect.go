package store

import (
	"context"

	"drkit/manifest/digest"
)

// Expecter is implemented by places whose own records say what the bytes of a
// file must be, such as a model hub's cache, which names each blob by its digest.
// That is no evidence of what they are: a reader that hashes them compares.
type Expecter interface {
	// Expected lists the digests that the records state for a key, none when they
	// are silent. Two of one algorithm that differ contradict each other.
	Expected(key string) []digest.Digest
}

// Pinned is implemented by places that hold one commit of a repository on a
// model hub. Pin asks for it when it is not known yet; what is not known is "".
type Pinned interface {
	Pin(ctx context.Context) (repo, commit string, err error)
}

// Defect is why a KeyError's key is not whole although the place can be read:
// its own records contradict what is there. List yields it and goes on.
type Defect struct {
	Kind string // a stable word, one of the constants below
	What string // a sentence without the key
}

// Kinds of Defect.
const (
	DefectMissing     = "source-file-missing"         // the place's listing names it, and it is not there
	DefectInterrupted = "source-download-interrupted" // as above, and a part of it was left behind
	DefectOutside     = "source-link-outside"         // a link that leads out of where the place keeps its bytes
	DefectListing     = "source-listing-unreadable"   // what should be there cannot be known
	DefectRef         = "source-ref-malformed"        // a name of the commit cannot be resolved by the hub's own library
)

// Error says what is wrong.
func (d *Defect) Error() string { return d.What }
