package taskpb

import "github.com/sluiceio/sluice/proto/jobpb"

// Counters of one attempt. The message is the job record's, which keeps the last ones of attempts that have ended.
type Counters = jobpb.Counters
