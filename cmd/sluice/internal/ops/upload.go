package ops

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
)

// uploadChunk is the size of one message of an upload, in bytes.
const uploadChunk = 256 << 10

// upload makes the binary durable on the cluster, unless it is there already. Nothing is left there of an upload that
// broke off, so it is simply begun again.
func upload(ctx context.Context, s *Session, b *binary) error {
	exists := false
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) error {
		resp, err := to.Artifacts.Stat(ctx, &apipb.StatRequest{Digest: b.digest})
		exists = resp.GetExists()
		return err
	})
	if err != nil {
		return err
	}
	if exists {
		s.remark(" ✓ the cluster has the binary already (sha256 %.12s…)", b.digest)
		return nil
	}
	begun := s.Now()
	if err := s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) error { return s.send(ctx, to, b) }); err != nil {
		return err
	}
	s.remark(" ✓ uploaded %s (sha256 %.12s…, %s; 0 B next time)", size(b.size), b.digest, span(s.Now().Sub(begun)))
	return nil
}

func (s *Session) send(ctx context.Context, to Coordinator, b *binary) error {
	stream, err := to.Artifacts.Upload(ctx)
	if err != nil {
		return err
	}
	bar := s.bar(b.size, "uploading")
	header := &apipb.UploadHeader{Digest: b.digest, Size: b.size}
	err = stream.Send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Header{Header: header}})
	if err == nil {
		err = sendFile(b.path, uploadChunk, func(data []byte) error {
			_, _ = bar.Write(data) // a picture
			return stream.Send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Data{Data: data}})
		})
	}
	if err != nil && err != io.EOF { // io.EOF: the reason comes with the answer
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// bar draws progress on a terminal, and nothing anywhere else.
func (s *Session) bar(total int64, what string) io.Writer {
	if s.Terminal != Screen {
		return io.Discard
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
}

// spinner shows on a terminal that something of unknown length goes on, until the returned function is called, which
// waits for its end.
func (s *Session) spinner(what string) (done func()) {
	if s.Terminal != Screen {
		return func() {}
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription(what),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true))
	g := run.NewGroup(context.Background(), "spinner")
	g.Go("draw", func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Add(1) // a picture
			case <-ctx.Done():
				return bar.Finish()
			}
		}
	})
	return func() {
		g.Stop()
		_ = g.Wait() // a picture
	}
}
