package report

// word is a word of the reports' tables that is explained below them.
type word struct{ Word, Meaning string }

// words are those that a reader cannot know who was not there.
var words = []word{
	{"★", "the figure that is judged: it is held against the promise. The others are printed beside it."},
	{"gate", "a condition that was judged on what the run itself saw. Red ends the recovery."},
	{"unmeasured", "it could not be judged. It is never green: a run with such a gate is incomplete."},
	{"segment", "a stretch of the clock between two moments that the run stamped."},
	{"budget", "how long a step should take, as the playbook says; of a segment the sum of its steps, the longest of those that run side by side. It is a plan, and not judged."},
	{"slack", "what was left of the budget; with a minus, by how much it was exceeded."},
	{"cached", "served from what was already there: on a machine without it, it takes longer."},
	{"TTFT", "time to first token: from the request to the first word of its answer. p99: 99 % of requests were faster."},
}
