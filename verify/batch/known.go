package batch

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"drkit/internal/store"
	"drkit/manifest/digest"
	"drkit/verify"
)

// algorithms are those whose values verification can use, by S3's names.
var algorithms = map[string]string{
	"SHA256": digest.SHA256, "CRC64NVME": digest.CRC64NVME, "CRC32": digest.CRC32, "CRC32C": digest.CRC32C, "MD5": digest.MD5,
}

// Unusable is a task that says nothing about an object.
type Unusable struct {
	Key, Version string
	Why          string
}

// Known returns the checksums by key, with evidence recomputed and tied to the
// state of the object that S3 hashed, and names the tasks that say nothing: those
// that failed, and those that cannot be tied to a state.
func (r *Report) Known() (map[string]verify.Known, []Unusable) {
	known := map[string]verify.Known{}
	var unusable []Unusable
	for _, t := range r.Tasks {
		k, why := t.known()
		if had, twice := known[t.Key]; twice && why == "" {
			if had.Version != k.Version || had.ETag != k.ETag {
				why = "the report speaks of two states of it"
			}
			k.Sums = append(had.Sums, k.Sums...)
		}
		if why != "" {
			unusable = append(unusable, Unusable{t.Key, t.Version, why})
			continue
		}
		known[t.Key] = k
	}
	return known, unusable
}

// known is what a task found out, or why that is nothing.
func (t Task) known() (verify.Known, string) {
	if t.Failed {
		return verify.Known{}, strings.TrimSpace(fmt.Sprintf("S3 could not hash it: %s %s %.200s", t.Code, t.HTTP, t.Message))
	}
	k := verify.Known{Version: t.Version, ETag: strings.Trim(t.Result.ETag, `"`)}
	if k.Version == "null" {
		k.Version = "" // how S3 names what was written before versions were kept
	}
	if k.Version == "" && k.ETag == "" {
		return k, "the report names neither its version nor its ETag, so that it may be about other bytes"
	}
	d, err := t.Result.digest()
	if err != nil {
		return k, err.Error()
	}
	k.Sums = []store.Sum{{Digest: d, Evidence: store.Recomputed}}
	return k, ""
}

// digest reads the value. Base64 and hexadecimal must be one value, of the whole
// object, of an algorithm that can be compared.
func (r Result) digest() (digest.Digest, error) {
	name, ok := algorithms[r.Algorithm]
	if !ok {
		return digest.Digest{}, fmt.Errorf("the checksum is by %q, which a release does not hold: run the job with SHA256", r.Algorithm)
	}
	if r.Type != "FULL_OBJECT" {
		return digest.Digest{}, fmt.Errorf("the checksum is of type %q: run the job with FULL_OBJECT", r.Type)
	}
	value := strings.ToLower(r.Hex)
	if r.Base64 != "" {
		raw, err := base64.StdEncoding.DecodeString(r.Base64)
		text := hex.EncodeToString(raw)
		if err != nil || (value != "" && value != text) {
			return digest.Digest{}, fmt.Errorf("the checksum's two forms %.100q and %.100q are not one value", r.Base64, r.Hex)
		}
		value = text
	}
	d, err := digest.Parse(name + ":" + value)
	if err != nil {
		return digest.Digest{}, fmt.Errorf("the checksum %.100q is none by %s", value, r.Algorithm)
	}
	return d, nil
}
