package evidence

const (
	notTold    = "nobody told it: drill run takes it as a flag"
	notNoticed = "this version does not record it"
)

// unknown gives each null of the evidence its reason.
func unknown(e *Evidence) []Unknown {
	all := []Unknown{}
	add := func(missing bool, field, reason string) {
		if missing {
			all = append(all, Unknown{field, reason})
		}
	}
	s := e.Scenario
	add(s.ID == nil, "/scenario/id", notTold)
	add(s.Severity == nil, "/scenario/severity", notTold)
	add(s.Trigger == nil, "/scenario/trigger", notTold)
	add(s.ChangeRef == nil, "/scenario/change_ref", notTold)
	add(e.Plan.PlaybookSHA256 == nil, "/plan/playbook_sha256", "the run did not journal it")
	add(e.Manifest.Release == nil, "/manifest/release", "no release was published in the target when the run began")
	add(e.Manifest.Parts == nil, "/manifest/parts", "the release's manifest could not be read when the run began")
	add(e.Tool.Commit == nil, "/tool/commit", "the program does not say which source it was built from")
	add(e.Tool.Dirty == nil, "/tool/dirty", "the program does not say which source it was built from")
	add(e.Tool.SHA256 == nil, "/tool/sha256", "the program's file could not be read when the run began")
	add(e.Operator.ID == nil, "/operator/id", "the machine did not say who ran it")
	add(e.Approvers == nil, "/approvers", "nobody approved the plan; only live runs need it")
	add(e.People == nil, "/participants", notTold)
	add(e.Observers == nil, "/observers", notTold)
	add(e.Notified == nil, "/notified", "no step of the plan notified anybody, or none got that far")
	add(e.NoLedger == nil, "/without_ledger", "the run was not begun without its ledger")
	add(true, "/environment/accounts", notNoticed)
	add(true, "/environment/clusters", notNoticed)
	add(e.Environment.IsolationProof == nil, "/environment/isolation_proof", "no gate of this run tried to reach the source region from inside the canary")
	add(e.Objectives.TTFTP99 == nil, "/objectives/ttft_p99_seconds", "not promised")
	add(true, "/clock/ntp_offset_seconds", "the machine's clock was not compared with another; durations come from the monotonic clock")
	add(true, "/lessons", "lessons are drawn by people")
	add(e.Ledger == nil, "/ledger", "the run was not announced in a ledger: runs can be missing without a trace")
	add(e.Failback.Result == nil, "/failback/result", "the plan has no failback, or it was not reached")
	add(e.Outcome == nil, "/outcome", "the journal has no end: the run still lives, or its process was killed")
	add(e.Clock.Ended == nil, "/clock/ended", "the journal has no end: the run still lives, or its process was killed")
	add(e.Outcome != nil && e.Outcome.Aborting == nil, "/outcome/cut_short", "the run was not cut short")
	return append(all, unknownParts(e)...)
}

// unknownParts are the reasons inside lists.
func unknownParts(e *Evidence) []Unknown {
	all := []Unknown{}
	once := func(field, reason string) {
		for _, u := range all {
			if u.Field == field {
				return
			}
		}
		all = append(all, Unknown{field, reason})
	}
	for _, s := range e.Steps {
		if s.Start == nil || s.End == nil || s.Elapsed == nil {
			for _, f := range []string{"start", "end", "elapsed_seconds"} {
				once("/steps/*/"+f, "the step was not reached, or did not end")
			}
		}
		if s.Budget == nil {
			once("/steps/*/budget_seconds", "the playbook gives the step no budget")
		}
	}
	for _, s := range e.Segments {
		if s.Budget == nil {
			once("/segments/*/budget_seconds", "the steps that lead there have no budget, or the segment was not measured")
		}
		if s.Slack == nil {
			once("/segments/*/slack_seconds", "without a budget or a measurement there is no slack")
		}
	}
	for _, t := range e.Traffic {
		if t.TTFTP50 == nil || t.TTFTP99 == nil {
			once("/traffic/*/ttft_p50_seconds", "no request was answered in a window")
			once("/traffic/*/ttft_p99_seconds", "no request was answered in a window")
		}
		if t.CacheMin == nil {
			once("/traffic/*/cache_hit_min", "the engine's answers do not say how much came from its cache")
			once("/traffic/*/cache_hit_max", "the engine's answers do not say how much came from its cache")
		}
	}
	for _, a := range approversOf(e) {
		if a.KeyID == nil {
			for _, f := range []string{"key_id", "expires", "ledger_record", "sha256"} {
				once("/approvers/*/"+f, "the operator typed the approval: no key proves it")
			}
		}
	}
	if len(e.Findings) > 0 {
		for _, f := range []string{"owner", "due", "ticket"} {
			once("/findings/*/"+f, "it is given by people, after the run")
		}
	}
	return all
}
