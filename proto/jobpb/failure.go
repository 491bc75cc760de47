package jobpb

// SameRecord reports how many attempts have failed at the record at which the newest one has, when all attempts that are known to
// have failed by the job's own code have failed there, and there were at least two; otherwise it is 0. Such a job will fail
// there again. failures are in the order of time, newest last.
func SameRecord(failures []*Failure) (times int) {
	var last *Failure
	for _, f := range failures {
		if f.GetKind() == FailureKind_FAILURE_LOSS {
			continue
		}
		last = f
	}
	if last.GetPosition() == "" || last.GetOperator() == "" {
		return 0
	}
	var before *Failure
	for _, f := range failures {
		switch {
		case f.GetKind() == FailureKind_FAILURE_LOSS:
		case before != nil && f.Chain == before.Chain && f.Index == before.Index && f.Attempt == before.Attempt:
			// of the last attempt there are two: what it has said, and why the job does not go on
		case f.GetOperator() != last.Operator || f.GetPosition() != last.Position || f.GetCode() != last.Code:
			return 0
		default:
			times++
			before = f
		}
	}
	if times < 2 {
		return 0
	}
	return times
}
