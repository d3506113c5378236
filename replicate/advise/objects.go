package advise

import (
	"cmp"
	"fmt"
	"time"

	"drkit/internal/errext"
)

// objects looks at what became of each object of the release.
func (j *judge) objects() {
	j.about(j.Missing, Finding{Check: "not-in-source", Severity: Fail, Message: fmt.Sprintf("files of the release that bucket %s does not hold, so that nothing can replicate them: %d", j.Source.Bucket, len(j.Missing)), Hint: "drkit replicate publishes the release in the source region first"})
	j.about(j.Unread, Finding{Check: "status-unknown", Severity: Unknown, Message: fmt.Sprintf("objects whose replication status could not be read: %d", len(j.Unread)), Hint: "grant s3:GetObject and s3:GetObjectVersion on them"})
	if j.ListErr != nil {
		j.add(Finding{Check: "target-unknown", Severity: Unknown, Message: fmt.Sprintf("which objects bucket %s holds could not be listed: %v", j.Target.Bucket, j.ListErr), Hint: cmp.Or(errext.Hint(j.ListErr), "grant s3:ListBucket on it")})
	}
	if len(j.Objects) == 0 && len(j.Missing) == 0 {
		j.add(Finding{Check: "nothing-seen", Severity: Unknown, Message: "no object of the release was looked at, so that only the rules themselves were judged"})
	}
	var failed, doubtful, never, elsewhere, late, pending, replicas, gone, odd []string
	for _, o := range j.Objects {
		switch o.Status {
		case "FAILED":
			if o.InTarget {
				doubtful = append(doubtful, o.Key)
			} else {
				failed = append(failed, o.Key)
			}
		case "PENDING":
			if j.Now.Sub(o.Modified) > TimeControl {
				late = append(late, o.Key)
			} else {
				pending = append(pending, o.Key)
			}
		case "REPLICA":
			replicas = append(replicas, o.Key)
			if !o.InTarget && j.ListErr == nil {
				gone = append(gone, o.Key)
			}
		case "":
			if o.InTarget {
				elsewhere = append(elsewhere, o.Key)
			} else {
				never = append(never, o.Key)
			}
		case "COMPLETED", "COMPLETE":
			if !o.InTarget && j.ListErr == nil {
				gone = append(gone, o.Key)
			}
		default:
			odd = append(odd, fmt.Sprintf("%s (%s)", o.Key, o.Status))
		}
	}
	j.about(failed, Finding{Check: "failed", Severity: Fail, Message: fmt.Sprintf("objects whose replication FAILED: %d", len(failed)), Hint: "see the role's permissions and the keys' policies, then run the back-fill job below"})
	j.about(doubtful, Finding{Check: "failed-elsewhere", Severity: Warn, Message: fmt.Sprintf("objects whose replication FAILED though the target lists them: %d. They may have failed for another bucket", len(doubtful)), Hint: "drkit verify proves whether they are equal"})
	j.about(never, j.never(len(never)))
	j.about(gone, Finding{Check: "not-in-target", Severity: Fail, Message: fmt.Sprintf("objects that S3 does not replicate again (COMPLETED, or replicas themselves) and that the target does not list in their size: %d. They went to another bucket, or were removed or overwritten since", len(gone)), Hint: "no back-fill brings them again: drkit replicate copies them"})
	if len(odd) > 0 {
		j.about(odd, Finding{Check: "status-unknown", Severity: Unknown, Message: fmt.Sprintf("objects with a replication status that says nothing here: %d, such as %s", len(odd), odd[0]), Hint: "drkit verify says what the target holds"})
	}
	j.about(late, Finding{Check: "late", Severity: Fail, Message: fmt.Sprintf("objects that are PENDING for longer than %v: %d, the oldest for %v", TimeControl, len(late), j.oldest(late)), Hint: "see OperationMissedThreshold and the target's throttling; drkit verify says what the target holds"})
	j.about(pending, Finding{Check: "pending", Severity: Warn, Message: fmt.Sprintf("objects on their way: %d PENDING", len(pending)), Hint: "look again in 15 minutes"})
	j.about(replicas, Finding{Check: "replica-in-source", Severity: Warn, Message: fmt.Sprintf("objects of the source that are replicas themselves, which no rule replicates further: %d", len(replicas)), Hint: "let the first bucket replicate to both, or run a Batch Replication job with status REPLICA"})
	j.about(elsewhere, Finding{Check: "not-by-rule", Severity: Info, Message: fmt.Sprintf("objects that no rule replicated and that the target lists all the same: %d", len(elsewhere)), Hint: "drkit verify proves whether they are equal"})
}

// never is what is to say of objects without a status that the target does not list,
// or of which it is not known.
func (j *judge) never(n int) Finding {
	f := Finding{Check: "never-replicated", Severity: Fail, Message: fmt.Sprintf("objects that were never replicated and that the target does not list: %d. A rule acts on what is written after it", n), Hint: "run the back-fill job below"}
	if j.ListErr != nil {
		f.Severity, f.Message, f.Hint = Unknown, fmt.Sprintf("objects that were never replicated, and of which it is not known whether the target holds them: %d", n), "drkit verify says what the target holds"
	}
	return f
}

// oldest is how long the oldest of the keys waits, in whole minutes.
func (j *judge) oldest(keys []string) time.Duration {
	in := map[string]bool{}
	for _, k := range keys {
		in[k] = true
	}
	var worst time.Duration
	for _, o := range j.Objects {
		if in[o.Key] {
			worst = max(worst, j.Now.Sub(o.Modified))
		}
	}
	return worst.Truncate(time.Minute)
}

// NeedsBackfill reports whether objects are left that a Batch Replication job
// would bring to the target.
func NeedsBackfill(found []Finding) bool {
	for _, f := range found {
		if f.Severity == Fail && (f.Check == "failed" || f.Check == "never-replicated") {
			return true
		}
	}
	return false
}
