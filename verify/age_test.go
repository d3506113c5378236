package verify_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/verify"
)

// twoRegions publish releases of their own, by the clock of a bubble.
type twoRegions struct {
	t        *testing.T
	us, eu   *mem.Store // stores and states
	releases []*manifest.Manifest
}

func newRegions(t *testing.T) *twoRegions {
	r := &twoRegions{t: t, us: mem.New(), eu: mem.New()}
	for _, content := range []string{"first", "second", "third"} {
		r.releases = append(r.releases, newRelease(map[string]string{"model/base/config.json": content, "model/base/weights": "12345678"}))
	}
	return r
}

var contents = map[int]string{0: "first", 1: "second", 2: "third"}

func (r *twoRegions) publish(s *mem.Store, region string, i int, generation int64) {
	r.copy(s, region, i)
	c := release.Current{Schema: release.CurrentSchema, Region: region, Service: "support", Release: r.releases[i].Release, Generation: generation}
	put(r.t, s, release.CurrentKey(region, "support"), string(c.Encode()))
}

// copy puts a release's files; those that are there stay as they are.
func (r *twoRegions) copy(s *mem.Store, region string, i int) {
	m := r.releases[i]
	prefix := release.Prefix(m.Service, m.Release)
	if _, err := s.Stat(r.t.Context(), prefix+release.ManifestName); err == nil {
		return
	}
	publish(r.t, m, map[string]string{"model/base/config.json": contents[i], "model/base/weights": "12345678"}, s)
}

// age verifies the copy of the release that the source publishes, or another one.
func (r *twoRegions) age(i int) *verify.Age {
	r.t.Helper()
	m := r.releases[i]
	res := mustRelease(r.t, m, verify.Copy{Region: "eu", Store: r.eu, Prefix: release.Prefix(m.Service, m.Release)}, verify.Options{Level: verify.ByContent})
	return verify.AgeOf(r.t.Context(), verify.AgeInput{Service: "support", Copy: res, Now: time.Now(),
		Source: verify.Published{Region: "us", Store: r.us, State: r.us}, Target: verify.Published{Region: "eu", Store: r.eu, State: r.eu}})
}

func TestAge(t *testing.T) {
	const unknown = -1
	config := func(i int) string {
		return release.Prefix("support", newRegions(t).releases[i].Release) + "model/base/config.json"
	}
	for name, c := range map[string]struct {
		do                         func(r *twoRegions)
		verified                   int
		releases, missing, seconds int // unknown: nil
		why                        string
	}{
		"the copy holds": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			time.Sleep(time.Hour)
			r.publish(r.eu, "eu", 0, 1)
		}, 0, 0, 0, 0, ""},
		"one file is missing": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.publish(r.eu, "eu", 0, 1)
			r.eu.Remove(r.t.Context(), config(0), store.Cond{})
			time.Sleep(time.Hour)
		}, 0, 0, 5, 3600, ""},
		"one file is rotten": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.publish(r.eu, "eu", 0, 1)
			r.eu.Damage(config(0), []byte("worst"))
			time.Sleep(time.Hour)
		}, 0, 0, 5, 3600, ""},
		// The source published two more; the first of them three hours ago.
		"two releases behind": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.publish(r.eu, "eu", 0, 1)
			time.Sleep(time.Hour)
			r.publish(r.us, "us", 1, 2)
			time.Sleep(time.Hour)
			r.publish(r.us, "us", 2, 3)
			time.Sleep(2 * time.Hour)
		}, 2, 2, 5 + 8, 3 * 3600, ""},
		"copied and not published": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.publish(r.eu, "eu", 0, 1)
			time.Sleep(time.Hour)
			r.publish(r.us, "us", 1, 2)
			r.copy(r.eu, "eu", 1)
			time.Sleep(time.Hour)
		}, 1, 1, 0, 3600, ""},
		"the source went back to an older one": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			time.Sleep(time.Hour)
			r.publish(r.us, "us", 1, 2)
			r.publish(r.eu, "eu", 1, 1)
			time.Sleep(time.Hour)
			r.publish(r.us, "us", 0, 3)
			time.Sleep(30 * time.Minute)
		}, 0, 1, 5 + 8, 1800, ""},
		"the target publishes nothing": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			time.Sleep(time.Hour)
		}, 0, 1, 5 + 8, 3600, "eu publishes no release"},
		"the source publishes nothing": {func(r *twoRegions) { r.publish(r.eu, "eu", 0, 1) }, 0, unknown, unknown, unknown, "us publishes no release"},
		"the source is gone": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.publish(r.eu, "eu", 0, 1)
			r.us.Fault = func(string, string) error { return errors.New("no route to host") }
		}, 0, unknown, unknown, unknown, "no route to host"},
		"another release was verified": {func(r *twoRegions) {
			r.publish(r.us, "us", 1, 1)
			r.publish(r.eu, "eu", 1, 1)
			r.copy(r.eu, "eu", 0)
		}, 0, 0, unknown, unknown, "was verified"},
		"the source no longer holds the target's": {func(r *twoRegions) {
			r.publish(r.us, "us", 1, 1)
			r.publish(r.eu, "eu", 0, 1)
		}, 1, unknown, 6 + 8, unknown, "no longer holds"},
		"the source's clock is ahead": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.us.Say(release.Prefix("support", r.releases[0].Release)+"manifest.json", func(o *store.Object) { o.ModTime = o.ModTime.Add(time.Hour) })
		}, 0, 1, 5 + 8, unknown, "still to come"},
		"the source says no times": {func(r *twoRegions) {
			r.publish(r.us, "us", 0, 1)
			r.us.Say(release.Prefix("support", r.releases[0].Release)+"manifest.json", func(o *store.Object) { o.ModTime = time.Time{} })
		}, 0, unknown, 5 + 8, unknown, "does not say when"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegions(t)
				c.do(r)
				a := r.age(c.verified)
				got := [3]int{unknown, unknown, unknown}
				if a.Releases != nil {
					got[0] = *a.Releases
				}
				if a.Missing != nil {
					got[1] = int(*a.Missing)
				}
				if a.Seconds != nil {
					got[2] = int(*a.Seconds)
				}
				if want := [3]int{c.releases, c.missing, c.seconds}; got != want {
					t.Errorf("releases, bytes, seconds %v, want %v: %+v", got, want, a)
				}
				if why := strings.Join(a.Why, "; "); !strings.Contains(why, c.why) || (c.why == "") != (why == "") {
					t.Errorf("unknown: %q, want %q", why, c.why)
				}
				if (a.Seconds == nil) != (a.Basis == "") {
					t.Errorf("basis %q", a.Basis)
				}
			})
		})
	}
}

// TestAgeOfWhatIsNotProven: claims less than required are no age of 0.
func TestAgeOfWhatIsNotProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegions(t)
		r.publish(r.us, "us", 0, 1)
		r.publish(r.eu, "eu", 0, 1)
		m := r.releases[0]
		res := mustRelease(t, m, verify.Copy{Region: "eu", Store: r.eu, Prefix: release.Prefix(m.Service, m.Release)}, verify.Options{Level: verify.Presence})
		places := func(name string, s *mem.Store) verify.Published {
			return verify.Published{Region: name, Store: s, State: s}
		}
		a := verify.AgeOf(t.Context(), verify.AgeInput{Service: "support", Copy: res, Now: time.Now(), Source: places("us", r.us), Target: places("eu", r.eu)})
		if a.Seconds != nil || *a.Unproven <= 5+8 { // manifest.json too
			t.Errorf("%+v", a)
		}
	})
}

// TestAgeOfShards: no shard knows it, and all of them together do.
func TestAgeOfShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegions(t)
		r.publish(r.us, "us", 0, 1)
		r.publish(r.eu, "eu", 0, 1)
		m := r.releases[0]
		places := func(name string, s *mem.Store) verify.Published {
			return verify.Published{Region: name, Store: s, State: s}
		}
		age := func() *verify.Age {
			time.Sleep(time.Hour)
			merged, err := verify.Merge(shardsOf(t, 2, func(sh verify.Shard) verify.Result {
				res := mustRelease(t, m, verify.Copy{Region: "eu", Store: r.eu, Prefix: release.Prefix(m.Service, m.Release)}, verify.Options{Level: verify.ByContent, Shard: sh})
				res.Age = verify.AgeOf(t.Context(), verify.AgeInput{Service: "support", Copy: res, Now: time.Now(), Source: places("us", r.us), Target: places("eu", r.eu)})
				if res.Age.Seconds != nil || res.Age.Missing != nil {
					t.Errorf("a shard knows %+v", res.Age)
				}
				return res
			}))
			if err != nil {
				t.Fatal(err)
			}
			return merged.Age
		}
		if a := age(); a.Seconds == nil || *a.Seconds != 0 || *a.Missing != 0 || len(a.Why) != 0 {
			t.Errorf("%+v", a)
		}
		r.eu.Remove(t.Context(), release.Prefix("support", m.Release)+"model/base/config.json", store.Cond{})
		if a := age(); a.Seconds == nil || *a.Seconds != 7200 || *a.Missing != 5 {
			t.Errorf("%+v", a)
		}
	})
}
