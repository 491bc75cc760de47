package probe

import (
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	oldreflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

// Probes are the health of some services of a server. They are not ready until somebody says so.
type Probes struct {
	health   *health.Server
	services []string
}

// New makes the health of services, which are full names as in sluice.api.Jobs.
func New(services ...string) *Probes {
	p := &Probes{health: health.NewServer(), services: services}
	p.set(healthpb.HealthCheckResponse_NOT_SERVING)
	return p
}

// Register adds health and reflection to a server. Reflection shows what is registered when it is asked, so the order does
// not matter.
func (p *Probes) Register(s reflection.GRPCServer) {
	healthpb.RegisterHealthServer(s, p.health)
	reflection.Register(s)
}

// Ready says that the node can do what it is for.
func (p *Probes) Ready() { p.set(healthpb.HealthCheckResponse_SERVING) }

// Unready says that it cannot, at the moment.
func (p *Probes) Unready() { p.set(healthpb.HealthCheckResponse_NOT_SERVING) }

// Stop says that the process ends, in spite of what is said of it afterwards.
func (p *Probes) Stop() { p.health.Shutdown() }

func (p *Probes) set(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, s := range p.services {
		p.health.SetServingStatus(s, status)
	}
}

// Calls are the methods that Register adds which end with one answer, Streams those that do not, for servers that keep
// lists of theirs.
func Calls() []string {
	return []string{healthpb.Health_Check_FullMethodName, healthpb.Health_List_FullMethodName}
}

// Streams are the methods that answer more than once.
func Streams() []string {
	return []string{
		healthpb.Health_Watch_FullMethodName,
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, oldreflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
	}
}
