package manifest

import (
	"fmt"
	"slices"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// KindDigest is the kind of problem of a file whose bytes are not those that its
// source states: a hub cache's blob that is not what its name says.
const KindDigest = "source-digest-mismatch"

// stated is what a source says of a file's bytes before they are read.
type stated []digest.Digest

func (it *item) stated() (all stated) {
	if e, ok := it.source.(store.Expecter); ok {
		all = slices.Clone(e.Expected(it.key))
	}
	for _, s := range it.object().Sums {
		if s.Parts == 0 && !s.EqualityOnly && !slices.Contains(all, s.Digest) {
			all = append(all, s.Digest)
		}
	}
	return all
}

// further takes the stated digests that Build does not take of a file of this
// size anyway; nil when there are none.
func (s stated) further(size int64) *digest.Hasher {
	var algorithms []string
	for _, d := range s {
		if size > digest.SmallFile && (d.Algorithm == digest.GitSHA1 || d.Algorithm == digest.MD5) {
			algorithms = append(algorithms, d.Algorithm)
		}
	}
	if algorithms == nil {
		return nil
	}
	return digest.NewHasher(size, algorithms...)
}

// contradicted compares what was stated with what was read.
func (s stated) contradicted(f File, got digest.Set) (problems []Problem) {
	for _, want := range s {
		if hex, taken := got[want.Algorithm]; taken && hex != want.Hex {
			problems = append(problems, Problem{Part: f.Part, Region: f.Region, Path: f.Path, Kind: KindDigest,
				What: fmt.Sprintf("its bytes have the %s %s, and its source states %s: they were damaged or changed after the download", want.Algorithm, hex, want.Hex)})
		}
	}
	return problems
}
