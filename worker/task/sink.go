package task

import (
	"github.com/sluiceio/sluice/connector"
)

// NewSink is the stage of a sink: Write per record; Flush, End and Prepare at the end of the input.
func NewSink[T any](s connector.Sink[T]) Stage {
	return StageOf[T, struct{}](func(rt *Runtime, _ Push[struct{}]) (Push[T], Operator, error) {
		w, err := s.OpenWriter(rt.Ctx, rt.Task, nil)
		if err != nil {
			return nil, nil, err
		}
		return func(v T) {
			if err := w.Write(rt.Ctx, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}, Base{}, nil
	})
}
