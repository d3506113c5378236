// Package bootlog reads the log of a vLLM engine's boot: into named phases with
// the stretches that no line explains, and, when the boot failed, into a class of
// failure with the line that shows it. It is pure: lines with the time at which
// they arrived go in.
//
// The lines are those of vLLM's own source, both spellings where versions differ,
// and were checked against logs of vLLM 0.32.0 on a CPU.
package bootlog

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"drkit/drill"
)

// Line is one line of an engine's log.
type Line struct {
	At   time.Duration // nanoseconds from launch to the line's arrival
	Text string
}

// The names of phases, in the order in which a boot passes through them.
const (
	PhaseStart   = "start"          // the process and its imports, up to the first line of the engine
	PhaseConfig  = "config"         // arguments and model configuration
	PhaseCore    = "engine core"    // the engine's own process and its workers
	PhaseWeights = "weights"        // the checkpoint into memory
	PhaseLoad    = "model load"     // the rest of loading the model
	PhaseDynamo  = "dynamo"         // bytecode transform
	PhaseCompile = "torch.compile"  // a graph was compiled
	PhaseCached  = "compile cache"  // a graph came from the cache
	PhaseProfile = "memory profile" // up to the size of the KV cache
	PhaseGraphs  = "CUDA graphs"    // capture
	PhaseWarmup  = "warm-up"        // of a CPU worker
	PhaseInit    = "engine init"    // the rest of profile, KV cache and warm-up
	PhaseServing = "server start"   // up to the listening server
	PhaseGap     = "unexplained"    // no line says what the engine did
)

// order ranks the phases; of two with equal rank either may come first.
var order = map[string]int{
	PhaseStart: 1, PhaseConfig: 2, PhaseCore: 3, PhaseWeights: 4, PhaseLoad: 5, PhaseDynamo: 6, PhaseCompile: 7, PhaseCached: 7,
	PhaseProfile: 8, PhaseGraphs: 9, PhaseWarmup: 9, PhaseInit: 10, PhaseServing: 11,
}

// shortest is the shortest gap that is shown.
const shortest = time.Second

// mark is a line that ends a phase. Seconds, when the line says them, are the
// engine's own figure for the phase and may be less than the stretch it ends.
type mark struct {
	phase string
	line  *regexp.Regexp // its first group, if there is one, is seconds
}

// marks are tried in order; the first that matches a line counts.
var marks = sync.OnceValue(func() []mark {
	return []mark{
		{PhaseStart, regexp.MustCompile(`version \d+\.\d+\S*\s*$|vLLM server version \S+|non-default args: `)},
		{PhaseConfig, regexp.MustCompile(`Initializing a V1 LLM engine \(v\S+\) with config: `)},
		{PhaseCore, regexp.MustCompile(`Starting to load model `)},
		{PhaseWeights, regexp.MustCompile(`Loading weights took ([\d.]+) seconds`)},
		{PhaseLoad, regexp.MustCompile(`Model loading took [\d.]+ GiB(?: memory)? and ([\d.]+) seconds`)},
		{PhaseDynamo, regexp.MustCompile(`Dynamo bytecode transform time: ([\d.]+) s`)},
		{PhaseCached, regexp.MustCompile(`Directly load the compiled graph\(s\) for compile range .* took ([\d.]+) s`)},
		{PhaseCompile, regexp.MustCompile(`Compiling a graph for compile range .* takes ([\d.]+) s`)},
		{PhaseCompile, regexp.MustCompile(`torch\.compile (?:took|takes) ([\d.]+) s in total`)},
		{PhaseProfile, regexp.MustCompile(`Available KV cache memory: |KV cache size: [\d,]+ tokens`)},
		{PhaseGraphs, regexp.MustCompile(`Graph capturing finished in ([\d.]+) secs`)},
		{PhaseWarmup, regexp.MustCompile(`Warming up done\.`)},
		{PhaseInit, regexp.MustCompile(`init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s`)},
		{PhaseServing, regexp.MustCompile(`Starting vLLM (?:API )?server on |Application startup complete\.`)},
	}
})

// prefix is what vLLM puts before a line: its process, the level with date and
// place in the source, in either order of presence.
var prefix = regexp.MustCompile(`^\s*(?:\((?:[A-Za-z0-9_.-]+ pid=\d+|stand-in engine)\)\s*)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?)?`)

// Strip removes process and logger prefixes from a line.
func Strip(line string) string {
	return strings.TrimRight(strings.TrimPrefix(line, prefix.FindString(line)), "\r\n")
}

// Phases returns what the log says of a boot that took up to end, the moment at
// which the engine was ready or had failed. They lie end to end from launch on.
// A phase lasts from the end of the one before it to its own line; where the
// engine's own figure is shorter, the rest before it is a gap, and so is what
// follows the last line. Tensor-parallel workers repeat lines: a phase ends with
// the last of them, and a straggler of an earlier phase ends none.
func Phases(replica string, lines []Line, end time.Duration) []drill.Phase {
	b := builder{replica: replica}
	for _, l := range lines {
		if l.At > end {
			break
		}
		text := Strip(l.Text)
		if m, seconds, ok := match(text); ok {
			b.close(m.phase, l.At, seconds, text)
		}
	}
	b.rest(end)
	return b.phases
}

func match(text string) (mark, time.Duration, bool) {
	for _, m := range marks() {
		found := m.line.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		if len(found) < 2 {
			return m, -1, true
		}
		seconds, err := strconv.ParseFloat(found[1], 64)
		if err != nil || seconds > 1e6 {
			return m, -1, true
		}
		return m, time.Duration(seconds * float64(time.Second)), true
	}
	return mark{}, 0, false
}

// builder lays phases end to end.
type builder struct {
	replica string
	phases  []drill.Phase
	at      time.Duration // told up to here
	rank    int           // of the last phase
}

// close ends a phase at a line; figure is the engine's own for it, negative if
// the line has none.
func (b *builder) close(phase string, at, figure time.Duration, line string) {
	last := b.last()
	switch {
	case at < b.at || order[phase] < b.rank:
		return
	case last != nil && last.Name == phase:
		last.Length, last.Line, b.at = last.Length+at-b.at, line, at
		return
	case figure >= 0 && at-b.at-figure >= shortest:
		b.add(PhaseGap, at-figure, "", true)
	}
	b.add(phase, at, line, false)
	b.rank = order[phase]
}

func (b *builder) last() *drill.Phase {
	if len(b.phases) == 0 {
		return nil
	}
	return &b.phases[len(b.phases)-1]
}

func (b *builder) add(name string, until time.Duration, line string, gap bool) {
	b.phases = append(b.phases, drill.Phase{Replica: b.replica, Name: name, Start: b.at, Length: until - b.at, Line: line, Gap: gap})
	b.at = until
}

// rest is what comes after the last line that says anything.
func (b *builder) rest(end time.Duration) {
	if end-b.at >= shortest {
		b.add(PhaseGap, end, "", true)
	}
}
