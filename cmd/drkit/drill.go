package main

import (
	"github.com/spf13/cobra"
)

func newDrill(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "drill", Short: "Run a timed recovery, or look at one that ran"}
	c.AddCommand(newDrillRun(s, runDrill), newDrillResume(s, runDrillResume), newDrillAbort(s, runDrillAbort), newDrillReplay(s, runDrillReplay),
		newDrillVerifyEvidence(s, runDrillVerifyEvidence), newDrillSignEvidence(s, runDrillSignEvidence),
		newDrillHistory(s, runDrillHistory), newDrillStatus(s, runDrillStatus), newDrillApprove(s, runDrillApprove), newDrillPlanCommand(s, runDrillPlan), newDrillGC(s, runDrillGC), newDrillAdopt(s, runDrillAdopt),
		newDrillSelfTest(s, runDrillSelfTest))
	return c
}
