package clustertest

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Binary is an ELF header for linux/amd64 with a payload behind it: enough for everyone who only looks.
func Binary(payload string) []byte {
	b := make([]byte, 64, 64+len(payload))
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(b[18:], uint16(elf.EM_X86_64))
	binary.LittleEndian.PutUint32(b[20:], uint32(elf.EV_CURRENT))
	binary.LittleEndian.PutUint16(b[52:], 64) // size of this header
	binary.LittleEndian.PutUint16(b[54:], 56)
	binary.LittleEndian.PutUint16(b[58:], 64)
	return append(b, payload...)
}

// Digest names data as an artifact.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Upload stores data through a node and returns its digest.
func Upload(ctx context.Context, to apipb.ArtifactsClient, data []byte) (string, *apipb.UploadResponse, error) {
	digest := Digest(data)
	resp, err := UploadAs(ctx, to, &apipb.UploadHeader{Digest: digest, Size: int64(len(data))}, data)
	return digest, resp, err
}

// UploadAs stores data under a header of the caller's choice.
func UploadAs(ctx context.Context, to apipb.ArtifactsClient, h *apipb.UploadHeader, data []byte) (*apipb.UploadResponse, error) {
	stream, err := to.Upload(ctx)
	if err != nil {
		return nil, err
	}
	send := func(m *apipb.UploadRequest) error {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil // an early answer is received below
	}
	if err := send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Header{Header: h}}); err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(data, 64<<10) {
		if err := send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Data{Data: chunk}}); err != nil {
			return nil, err
		}
	}
	return stream.CloseAndRecv()
}

// Spec is a job of a name that runs an artifact.
func Spec(name, digest string) *jobpb.JobSpec { return &jobpb.JobSpec{Name: name, Artifact: digest} }

// Fault checks that err has a gRPC code and a stable code.
func Fault(err error, code codes.Code, stable string) error {
	if err == nil {
		return fmt.Errorf("no error, want %s %s", code, stable)
	}
	detail, _ := apipb.DetailOf(err)
	if got := apipb.CodeOf(err); got != code || detail.GetCode() != stable {
		return fmt.Errorf("error is %s %s, want %s %s: %w", got, detail.GetCode(), code, stable, err)
	}
	return nil
}
