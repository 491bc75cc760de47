package probe

import (
	"context"
	"net"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/internal/run"
)

const service = "sluice.api.Jobs"

// serve returns a client of a server that has nothing but probes.
func serve(t *testing.T, p *Probes) *grpc.ClientConn {
	t.Helper()
	l, s := bufconn.Listen(64<<10), grpc.NewServer()
	p.Register(s)
	g := run.NewGroup(context.Background(), "server")
	g.Go("serve", func(context.Context) error { return s.Serve(l) })
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// TestWatchersLearnOfReadinessAsItChanges: the process is alive all the time, which is another question.
func TestWatchersLearnOfReadinessAsItChanges(t *testing.T) {
	p := New(service)
	client := healthpb.NewHealthClient(serve(t, p))
	watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		switch i {
		case 1:
			p.Ready()
		case 2:
			p.Unready()
		}
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("step %d: %v, %v; want %v", i, got, err, want)
		}
		if got, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("step %d: the process: %v, %v", i, got, err)
		}
	}
	p.Stop()
	p.Ready()
	if got, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("it ends and is %v, %v", got, err)
	}
}

func TestReflectionShowsWhatIsServed(t *testing.T) {
	stream, err := reflectionpb.NewServerReflectionClient(serve(t, New(service))).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(answer.GetListServicesResponse().GetService(), func(s *reflectionpb.ServiceResponse) bool { return s.Name == "grpc.health.v1.Health" }) {
		t.Errorf("got %v", answer)
	}
}

// methods collects what is registered.
type methods struct{ names []string }

func (m *methods) RegisterService(d *grpc.ServiceDesc, _ any) {
	for _, c := range d.Methods {
		m.names = append(m.names, "/"+d.ServiceName+"/"+c.MethodName)
	}
	for _, s := range d.Streams {
		m.names = append(m.names, "/"+d.ServiceName+"/"+s.StreamName)
	}
}

func (m *methods) GetServiceInfo() map[string]grpc.ServiceInfo { return nil }

func TestEveryMethodIsListed(t *testing.T) {
	m := &methods{}
	New(service).Register(m)
	if listed := slices.Concat(Calls(), Streams()); !slices.Equal(slices.Sorted(slices.Values(m.names)), slices.Sorted(slices.Values(listed))) {
		t.Errorf("registered are %q, listed %q", m.names, listed)
	}
}
